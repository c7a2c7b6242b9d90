// Changes of objects that are work on a node: judged as every write is, done there, then shown as they became.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { cacheReader, idFor, idOf, type KindActions, type KindAdapter } from "./adapter.ts";
import { requireMay } from "./authorisation.ts";
import type { Idempotency, IdempotentRequest } from "./idempotency.ts";
import { sameJson } from "./merge-patch.ts";
import { metaCollection, metaId, projectObject, readMeta, type MetaRecord } from "./object-meta.ts";
import {
  isWorthKeeping,
  requireMayWrite,
  requireVersion,
  ruleOf,
  type WriteOutcome,
  type Write,
} from "./write-object.ts";

export interface ObjectActionDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly idempotency: Idempotency;
}

interface Removal {
  readonly adapter: KindAdapter;
  readonly id: string;
  readonly called: string;
  readonly resourceVersion: string | undefined;
  readonly ctx: RequestContext;
  readonly force?: boolean;
}

export class ObjectActions {
  readonly #deps: ObjectActionDeps;

  constructor(deps: ObjectActionDeps) {
    this.#deps = deps;
  }

  put(write: Write, once: IdempotentRequest | undefined): Promise<WriteOutcome> {
    return this.#deps.idempotency.once(once, () => putByAction(this.#deps, write));
  }

  remove(removal: Removal, once: IdempotentRequest | undefined): Promise<WriteOutcome> {
    return this.#deps.idempotency.once(once, () => this.#remove(removal));
  }

  async #remove(removal: Removal): Promise<WriteOutcome> {
    const { adapter, id, ctx } = removal;
    const { kind } = adapter.kind;
    const reader = cacheReader(this.#deps.records);
    const previous = adapter.get(reader, id);
    if (previous === undefined)
      throw new AppError("object.not_found", `there is no ${kind} '${removal.called}'`, {
        data: { kind, name: removal.called },
      });
    const { name } = previous;
    const current = projectObject(kind, previous, readMeta(reader, kind, id));
    requireMay(ruleOf(adapter, "delete"), ctx, { current });
    requireVersion(kind, name, removal.resourceVersion, current);
    await actionsOf(adapter).remove({ name, ctx, previous, force: removal.force ?? false });
    return this.#deps.records.transact((tx) => {
      tx.delete(metaCollection, metaId(kind, id));
      return { object: current, created: false, deleted: true, replayed: false };
    });
  }
}

/** Does the work and writes the labels; resolves when both are done. */
export async function putByAction(
  deps: Pick<ObjectActionDeps, "records" | "clock">,
  write: Write,
): Promise<WriteOutcome> {
  const { adapter, ctx } = write;
  const { kind } = adapter.kind;
  const reader = cacheReader(deps.records);
  const asked = typeof write.object === "function" ? undefined : write.object.metadata;
  const previous = adapter.get(
    reader,
    write.id ?? (asked === undefined ? "" : idFor(adapter, reader, asked)),
  );
  const name = previous?.name ?? asked?.name ?? write.id ?? "";
  const current =
    previous === undefined
      ? undefined
      : projectObject(kind, previous, readMeta(reader, kind, idOf(previous)));
  if (current === undefined && write.verb !== "create" && write.verb !== "apply")
    throw new AppError("object.not_found", `there is no ${kind} '${name}'`, { data: { kind, name } });
  const object = typeof write.object === "function" ? write.object(current as V1Object) : write.object;
  const verb = write.verb === "apply" ? (current === undefined ? "create" : "replace") : write.verb;
  const desired = { ...object, status: current?.status };
  requireMayWrite(adapter, verb, ctx, { ...given({ current }), desired });
  if (current !== undefined && verb === "create")
    throw new AppError("object.exists", `${kind} '${name}' already exists`, { data: { kind, name } });
  requireVersion(kind, name, object.metadata.resourceVersion, current);
  const { namespace, labels } = object.metadata;
  const wanted = { name, namespace, labels, spec: object.spec, ctx };
  const spec = write.verb === "apply" ? actionsOf(adapter).settle(reader, wanted) : object.spec;
  if (previous === undefined) await actionsOf(adapter).create({ ...wanted, spec });
  else if (!sameJson(previous.spec, spec) || namespace !== undefined)
    await actionsOf(adapter).change({ ...wanted, spec, previous });
  return deps.records.transact((tx) => {
    const id = previous === undefined ? idFor(adapter, tx, object.metadata) : idOf(previous);
    const raw = adapter.get(tx, id);
    if (raw === undefined) throw new AppError("object.conflict", `${kind} '${name}' is gone again`);
    const before = readMeta(tx, kind, id)?.value;
    const meta: MetaRecord = {
      labels: object.metadata.labels ?? before?.labels ?? {},
      annotations: object.metadata.annotations ?? before?.annotations ?? {},
      createdAt: before?.createdAt ?? (previous === undefined ? deps.clock.now() : 0),
    };
    if (isWorthKeeping(meta, before)) tx.put(metaCollection, metaId(kind, id), meta);
    const entry = readMeta(tx, kind, id);
    return {
      object: projectObject(kind, raw, entry),
      created: previous === undefined,
      deleted: false,
      replayed: false,
    };
  });
}

export function actionsOf(adapter: KindAdapter): KindActions {
  if (adapter.act === undefined)
    throw new AppError("internal.error", `${adapter.kind.plural} have no actions`);
  return adapter.act;
}
