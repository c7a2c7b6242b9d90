import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { tenantKind } from "@gpve/contracts/v1/kinds/tenant.ts";
import type { Pool } from "@gpve/domain/access/types.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { aclDef, poolsDef, usersDef } from "@gpve/domain/access/collections.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { removeQuotasOf } from "../../quota/quota-records.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";

/** Pools, as tenants. Members are put in and taken out where they live: with the guest or storage. */
export function tenantAdapter(): KindAdapter {
  return {
    kind: tenantKind,
    collections: [poolsDef as CollectionDef<unknown>],
    list: (reader) => reader.list(poolsDef).map(raw).toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(poolsDef, name);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) => records.collection(poolsDef).onChange((id) => changed([id])),
    write: {
      put: (tx, { name, spec, previous }) => {
        const known = tx.get(poolsDef, name)?.value;
        const parent = parentOf(name);
        if (previous === undefined && parent !== undefined && tx.get(poolsDef, parent) === undefined) {
          throw new AppError("request.invalid", `parent '${parent}' of tenant '${name}' does not exist`);
        }
        const comment = typeof spec["comment"] === "string" ? spec["comment"] : "";
        const pool: Pool = {
          poolid: name,
          vms: known?.vms ?? [],
          storage: known?.storage ?? [],
          ...(comment === "" ? {} : { comment }),
        };
        tx.put(poolsDef, name, pool);
      },
      remove: (tx, { name }) => {
        const pool = tx.get(poolsDef, name)?.value;
        const members = [...(pool?.vms ?? []), ...(pool?.storage ?? [])];
        if (members.length > 0) {
          throw new AppError(
            "object.conflict",
            `tenant '${name}' is not empty: it holds ${members.join(", ")}`,
          );
        }
        const child = tx.list(poolsDef).find((entry) => parentOf(entry.id) === name);
        if (child !== undefined)
          throw new AppError("object.conflict", `tenant '${name}' has a tenant below: ${child.id}`);
        // Whoever has a tenant of that name later would have it.
        const cluster = tx.list(vclusterCollection).find(({ value }) => value.tenant === name)?.value.name;
        if (cluster !== undefined)
          throw new AppError(
            "object.conflict",
            `tenant '${name}' is not empty: virtual cluster '${cluster}' is of it`,
          );
        const user = tx.list(usersDef).find((entry) => entry.value.tenant === name);
        if (user !== undefined)
          throw new AppError("object.conflict", `tenant '${name}' is not empty: user '${user.id}' is of it`);
        tx.delete(poolsDef, name);
        removeQuotasOf(tx, name);
        for (const { id, value } of tx.list(aclDef))
          if (value.path === `/pool/${name}`) tx.delete(aclDef, id);
      },
    },
  };
}

function raw(entry: Entry<Pool>): RawObject {
  const { comment, vms, storage } = entry.value;
  const parent = parentOf(entry.id);
  return {
    name: entry.id,
    spec: comment === undefined || comment === "" ? {} : { comment },
    status: { guests: [...vms], storages: [...storage], ...given({ parent }) },
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
  };
}

function parentOf(name: string): string | undefined {
  const at = name.lastIndexOf("/");
  return at === -1 ? undefined : name.slice(0, at);
}
