// One change of one object inside a transaction, with its answer.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Verb } from "@gpve/contracts/v1/kind.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Entry, Tx } from "@gpve/store/records/port.ts";
import type { KindAdapter } from "./adapter.ts";
import { requireMay } from "./authorisation.ts";
import type { IdempotencyRecord } from "./idempotency.ts";
import { sameJson } from "./merge-patch.ts";
import { metaCollection, metaId, projectObject, readMeta, uidOf } from "./object-meta.ts";
import type { MetaRecord } from "./object-meta.ts";
import { OverlayTx } from "./overlay-tx.ts";
import type { CheckedObject } from "./validation.ts";

export interface WriteOutcome {
  readonly object: V1Object;
  readonly created: boolean;
  readonly deleted: boolean;
  readonly replayed: boolean;
}

export interface Write {
  readonly adapter: KindAdapter;
  readonly verb: Verb | "apply";
  readonly ctx: RequestContext;
  /** For a patch: made from what is there. */
  readonly object: CheckedObject | ((current: V1Object) => CheckedObject);
  /** Of the one that is meant; absent: the one that the object names. */
  readonly id?: string;
}

export function writeObject(outer: Tx, now: number, write: Write): WriteOutcome {
  const { adapter, ctx } = write;
  const { kind } = adapter.kind;
  const name = write.id ?? (typeof write.object === "function" ? "" : write.object.metadata.name);
  const previous = adapter.get(outer, name);
  const previousMeta = readMeta(outer, kind, name);
  const current = previous === undefined ? undefined : projectObject(kind, previous, previousMeta);
  if (current === undefined && (write.verb === "replace" || write.verb === "patch")) {
    throw new AppError("object.not_found", `there is no ${kind} '${name}'`, { data: { kind, name } });
  }
  const object = typeof write.object === "function" ? write.object(current as V1Object) : write.object;
  const verb = write.verb === "apply" ? (current === undefined ? "create" : "replace") : write.verb;
  const desired = { ...object, status: current?.status };
  requireMayWrite(adapter, verb, ctx, { ...given({ current }), desired });
  if (current !== undefined && verb === "create") {
    throw new AppError("object.exists", `${kind} '${name}' already exists`, { data: { kind, name } });
  }
  requireVersion(kind, name, object.metadata.resourceVersion, current);

  const tx = new OverlayTx(outer, outer);
  const writer = writerOf(adapter);
  const labels = object.metadata.labels ?? current?.metadata.labels ?? {};
  const ownLabelsChanged = writer.ownsLabels === true && !sameJson(labels, current?.metadata.labels ?? {});
  const { namespace } = object.metadata;
  const moves = namespace !== undefined && namespace !== previous?.namespace;
  if (previous === undefined || moves || ownLabelsChanged || !sameJson(previous.spec, object.spec)) {
    writer.put(tx, { name, namespace, spec: object.spec, previous, labels, ctx });
  }
  const meta: MetaRecord = {
    labels: writer.ownsLabels === true ? {} : labels,
    annotations: object.metadata.annotations ?? previousMeta?.value.annotations ?? {},
    createdAt: previousMeta?.value.createdAt ?? (previous === undefined ? now : 0),
  };
  if (isWorthKeeping(meta, previousMeta?.value)) tx.put(metaCollection, metaId(kind, name), meta);
  return {
    object: after(adapter, tx, name),
    created: previous === undefined,
    deleted: false,
    replayed: false,
  };
}

export function removeObject(
  outer: Tx,
  removal: {
    readonly adapter: KindAdapter;
    readonly id: string;
    readonly resourceVersion: string | undefined;
    readonly force?: boolean;
    readonly ctx: RequestContext;
  },
): WriteOutcome {
  const { adapter, id: name, ctx } = removal;
  const { kind } = adapter.kind;
  const previous = adapter.get(outer, name);
  if (previous === undefined)
    throw new AppError("object.not_found", `there is no ${kind} '${name}'`, { data: { kind, name } });
  const current = projectObject(kind, previous, readMeta(outer, kind, name));
  requireMay(ruleOf(adapter, "delete"), ctx, { current });
  requireVersion(kind, name, removal.resourceVersion, current);
  writerOf(adapter).remove(outer, { name, previous, ctx, force: removal.force ?? false });
  outer.delete(metaCollection, metaId(kind, name));
  return { object: current, created: false, deleted: true, replayed: false };
}

/** The answer as it was given, with the revision its transaction turned out to have. */
export function storedOutcome(entry: Entry<IdempotencyRecord>): WriteOutcome {
  const outcome = entry.value.result as WriteOutcome | undefined;
  if (outcome === undefined)
    throw new AppError("object.conflict", "a request with this Idempotency-Key is being worked on");
  const { object } = outcome;
  const { name, resourceVersion } = object.metadata;
  const metadata = {
    ...object.metadata,
    resourceVersion: resourceVersion.replace(/^0(?=$|-)/, String(entry.revision)),
    ...(outcome.created ? { uid: uidOf(object.kind, { name, createRevision: entry.revision }) } : {}),
  };
  return { ...outcome, object: { ...object, metadata }, replayed: true };
}

/** An object nobody labelled and whose age is not known has no record of its own. */
export function isWorthKeeping(meta: MetaRecord, previous: MetaRecord | undefined): boolean {
  if (previous !== undefined) return !sameJson(meta, previous);
  return (
    meta.createdAt !== 0 || Object.keys(meta.labels).length > 0 || Object.keys(meta.annotations).length > 0
  );
}

function after(adapter: KindAdapter, tx: OverlayTx, name: string): V1Object {
  const { kind } = adapter.kind;
  const raw = adapter.get(tx, name);
  if (raw === undefined)
    throw new AppError("internal.error", `${kind} '${name}' was written and is not there`);
  const meta = readMeta(tx, kind, name);
  // "0" = this transaction, whenever either record was written in it.
  const pending = raw.revision === 0 || meta?.revision === 0;
  if (!pending) return projectObject(kind, raw, meta);
  return projectObject(
    kind,
    { ...raw, revision: 0 },
    meta === undefined ? undefined : { ...meta, revision: 0 },
  );
}

export function requireVersion(
  kind: string,
  name: string,
  expected: string | undefined,
  current: V1Object | undefined,
): void {
  if (expected === undefined || expected === "") return;
  const found = current?.metadata.resourceVersion;
  if (found === expected) return;
  const what = found === undefined ? "it does not exist" : "someone else changed it";
  throw new AppError(
    "object.conflict",
    `${kind} '${name}' is not at version ${expected} any more: ${what}; read it again`,
    {
      data: { kind, name, expected, ...given({ found }) },
    },
  );
}

/** The verb's own rule, and what labels and annotations need where they change. */
export function requireMayWrite(
  adapter: KindAdapter,
  verb: Verb,
  ctx: RequestContext,
  target: { readonly current?: V1Object; readonly desired: Pick<CheckedObject, "metadata" | "spec"> },
): void {
  requireMay(ruleOf(adapter, verb), ctx, target);
  const { labelsPermission } = adapter.kind;
  if (labelsPermission === undefined) return;
  const [before, after] = [target.current?.metadata, target.desired.metadata];
  const same = (wanted: object | undefined, found: object | undefined): boolean =>
    wanted === undefined || sameJson(wanted, found ?? {});
  if (same(after.labels, before?.labels) && same(after.annotations, before?.annotations)) return;
  requireMay(labelsPermission, ctx, target);
}

/** In a refusal: what cannot be done, and what can be instead. */
export function missingVerb({ kind, plural }: KindAdapter["kind"], verb: Verb): string {
  const instead =
    kind === "Node" && verb === "create" ? ": a machine joins, by gpvectl node join-command" : "";
  return `${plural} have no '${verb}' under /api/v1${instead}`;
}

export function ruleOf(
  adapter: KindAdapter,
  verb: Verb,
): NonNullable<KindAdapter["kind"]["permissions"][Verb]> {
  const rule = adapter.kind.permissions[verb];
  if (rule === undefined) throw new AppError("feature.unsupported", missingVerb(adapter.kind, verb));
  return rule;
}

function writerOf(adapter: KindAdapter): NonNullable<KindAdapter["write"]> {
  if (adapter.write === undefined) {
    throw new AppError("feature.unsupported", `${adapter.kind.plural} cannot be changed under /api/v1`);
  }
  return adapter.write;
}
