import { AppError } from "@gpve/contracts/errors.ts";
import { resourceQuotaKind } from "@gpve/contracts/v1/kinds/resource-quota.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { amountOf, keysOf, type Amounts } from "@gpve/domain/quota/amounts.ts";
import { BOUNDS, hardOf, type Bound, type Quota } from "@gpve/domain/quota/quota.ts";
import { amountFields, quotaSpec, readQuota } from "@gpve/domain/quota/read-quota.ts";
import type { Charge } from "@gpve/domain/quota/verdict.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { quotasDef, reservationsDef } from "../../quota/quota-records.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";

export interface ResourceQuotaDeps {
  /** What is used of a quota. Absent: quotas are only kept here, and nothing is known of guests. */
  readonly quotaUsage: (quota: Quota) => Charge;
}

/** Quotas of tenants: what is bounded from the store, what is used as it is now. */
export function resourceQuotaAdapter({ quotaUsage }: ResourceQuotaDeps): KindAdapter {
  const raw = ({ id, value, revision, createRevision, version }: Entry<Quota>): RawObject => ({
    name: id,
    namespace: value.tenant,
    spec: quotaSpec(value),
    status: statusOf(value, quotaUsage(value)),
    revision,
    createRevision,
    generation: version,
  });
  return {
    kind: resourceQuotaKind,
    collections: [quotasDef as CollectionDef<unknown>],
    list: (reader) => reader.list(quotasDef).map(raw).toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(quotasDef, name);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) => {
      const all = (): void =>
        changed(
          records
            .collection(quotasDef)
            .list()
            .map(({ id }) => id),
        );
      const stops = [
        records.collection(quotasDef).onChange((id) => changed([id])),
        ...[guestCollection, poolsDef, reservationsDef].map((def) =>
          records.collection(def as CollectionDef<unknown>).onChange(all),
        ),
      ];
      return () => stops.forEach((stop) => stop());
    },
    write: {
      put: (tx, { name, namespace, spec, previous }) => {
        const tenant = namespace ?? previous?.namespace;
        if (tenant === undefined) throw badTenant("is required: the tenant whose quota it is");
        if (previous !== undefined && previous.namespace !== tenant)
          throw badTenant(`is '${previous.namespace ?? ""}' and stays so: delete the quota and make another`);
        if (tx.get(poolsDef, tenant) === undefined) throw badTenant(`'${tenant}' is no tenant`);
        tx.put(quotasDef, name, readQuota(name, tenant, spec));
      },
      remove: (tx, { name }) => tx.delete(quotasDef, name),
    },
  };
}

function statusOf(quota: Quota, usage: Charge): RawObject["status"] {
  const hard = (bound: Bound): Amounts => hardOf(quota, bound);
  const used = (bound: Bound): Amounts =>
    Object.fromEntries(keysOf(quota[bound]).map((key) => [key, amountOf(usage[bound], key)]));
  const shown = (of: (bound: Bound) => Amounts) =>
    Object.fromEntries(
      BOUNDS.filter((bound) => keysOf(quota[bound]).length > 0).map((bound) => [
        bound,
        amountFields(of(bound)),
      ]),
    );
  const exceeded = BOUNDS.flatMap((bound) =>
    keysOf(quota[bound])
      .filter((key) => amountOf(usage[bound], key) > amountOf(hard(bound), key))
      .map((key) => `${bound}.${key}`),
  );
  return { hard: shown(hard), used: shown(used), exceeded };
}

function badTenant(why: string): AppError {
  return new AppError("request.invalid", `the ResourceQuota is not valid: metadata.namespace ${why}`, {
    errors: { "metadata.namespace": why },
  });
}
