// What applying objects would change, found by doing it in a transaction that is never committed.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import type { FieldChange, PlanItem, PlanResult } from "@gpve/contracts/v1/bodies.ts";
import type { KindDeclaration } from "@gpve/contracts/v1/kind.ts";
import { findKind } from "@gpve/contracts/v1/kinds.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import { problemOf } from "@gpve/contracts/v1/problem.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { cacheReader, idOf, isAppliable, readNamed } from "./adapter.ts";
import type { KindActions, KindAdapter } from "./adapter.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { diffFields } from "./merge-patch.ts";
import { objectLock } from "./object-lock.ts";
import { projectObject, readMeta } from "./object-meta.ts";
import { OverlayTx } from "./overlay-tx.ts";
import { secretFields } from "./secret-fields.ts";
import type { CheckedObject, Validator } from "./validation.ts";
import { requireMayWrite, requireVersion, writeObject } from "./write-object.ts";

export interface PlanDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly validator: Validator;
  readonly adapters: readonly KindAdapter[];
}

/** A planned object that apply can carry out. */
export interface PlannedChange {
  readonly adapter: KindAdapter;
  readonly object: CheckedObject;
}

export interface Plan {
  readonly result: PlanResult;
  /** What has to be written, in order. Empty when refused or unchanged. */
  readonly changes: readonly PlannedChange[];
}

type Read =
  | {
      readonly ok: true;
      readonly adapter: KindAdapter;
      readonly object: CheckedObject;
      readonly order: number;
    }
  | { readonly ok: false; readonly item: PlanItem; readonly order: number };

export async function planObjects(
  deps: PlanDeps,
  objects: readonly unknown[],
  ctx: RequestContext,
): Promise<Plan> {
  await deps.records.fresh({ signal: ctx.signal });
  const tx = new OverlayTx(cacheReader(deps.records));
  const seen = new Set<string>();
  const items: PlanItem[] = [];
  const changes: PlannedChange[] = [];
  const read = objects.map((object) => readOne(deps, object)).toSorted((a, b) => a.order - b.order);
  for (const one of read) {
    if (!one.ok) {
      items.push(one.item);
      continue;
    }
    const item = planOne(deps, tx, one, seen, ctx);
    items.push(item);
    if (item.action === "create" || item.action === "update") changes.push(one);
  }
  const applicable = items.every((item) => item.action !== "refused");
  return {
    result: { items, applicable, resourceVersion: String(deps.records.revision()) },
    changes: applicable ? changes : [],
  };
}

function readOne(deps: PlanDeps, body: unknown): Read {
  const metadata = isObject(body) ? body["metadata"] : undefined;
  const kindText = isObject(body) && typeof body["kind"] === "string" ? body["kind"] : "";
  const named = isObject(metadata) && typeof metadata["name"] === "string" ? metadata["name"] : "";
  try {
    const adapter = adapterOf(deps.adapters, kindText);
    const object = inTenant(adapter.kind, deps.validator.checkObject(adapter.kind, body));
    return { ok: true, adapter, object, order: adapter.kind.applyOrder ?? 0 };
  } catch (err) {
    return { ok: false, item: refused(kindText, named, err), order: findKind(kindText)?.applyOrder ?? 0 };
  }
}

/** Of a kind whose names are their tenant's, an object that says none is the default one's. */
function inTenant(
  { namesInTenant, defaultNamespace }: KindDeclaration,
  object: CheckedObject,
): CheckedObject {
  const { namespace = defaultNamespace } = object.metadata;
  if (namesInTenant !== true || namespace === undefined) return object;
  return { ...object, metadata: { ...object.metadata, namespace } };
}

function planOne(
  deps: PlanDeps,
  tx: OverlayTx,
  one: { readonly adapter: KindAdapter; readonly object: CheckedObject },
  seen: Set<string>,
  ctx: RequestContext,
): PlanItem {
  const { adapter, object } = one;
  const { kind } = adapter.kind;
  const { name } = object.metadata;
  const key = objectLock({ kind, ...object.metadata });
  const { namespace } = object.metadata;
  const shown = { kind, name, ...(adapter.kind.namesInTenant === true ? given({ namespace }) : {}) };
  try {
    if (seen.has(key)) throw new AppError("request.invalid", `${kind} '${name}' is given twice`);
    seen.add(key);
    const raw = readNamed(adapter, tx, object.metadata);
    const before = raw === undefined ? undefined : projectObject(kind, raw, readMeta(tx, kind, idOf(raw)));
    if (adapter.act !== undefined) {
      const after = planAction(tx, adapter.act, { ...one, before, ctx });
      const changes = changesBetween(adapter, before, after);
      const action = before === undefined ? "create" : changes.length === 0 ? "unchanged" : "update";
      const notes = adapter.act.notes?.(before?.spec, after.spec) ?? [];
      return {
        ...shown,
        action,
        changes: [...changes],
        ...(notes.length === 0 ? {} : { notes: [...notes] }),
      };
    }
    // Refused halfway, its writes must not be seen by the objects after it.
    const trial = new OverlayTx(tx);
    const { object: after } = writeObject(trial, deps.clock.now(), { adapter, object, verb: "apply", ctx });
    const changes = changesBetween(adapter, before, after);
    if (before !== undefined && changes.length === 0) return { ...shown, action: "unchanged", changes: [] };
    writeObject(tx, deps.clock.now(), { adapter, object, verb: "apply", ctx });
    return { ...shown, action: before === undefined ? "create" : "update", changes: [...changes] };
  } catch (err) {
    return { ...refused(kind, name, err), ...shown };
  }
}

/** What the work would lead to. What its node refuses when asked is seen only by applying. */
function planAction(
  tx: OverlayTx,
  act: KindActions,
  one: {
    readonly adapter: KindAdapter;
    readonly object: CheckedObject;
    readonly before: V1Object | undefined;
    readonly ctx: RequestContext;
  },
): Shown {
  const { adapter, object, before, ctx } = one;
  const { name, namespace, labels, annotations, resourceVersion } = object.metadata;
  const desired = { ...object, status: before?.status };
  const target = { ...given({ current: before }), desired };
  requireMayWrite(adapter, before === undefined ? "create" : "replace", ctx, target);
  requireVersion(adapter.kind.kind, name, resourceVersion, before);
  return {
    metadata: {
      labels: labels ?? before?.metadata.labels ?? {},
      annotations: annotations ?? before?.metadata.annotations ?? {},
    },
    spec: act.settle(tx, { name, namespace, spec: object.spec, ctx }),
  };
}

type Shown = Pick<V1Object, "spec"> & {
  readonly metadata: Pick<V1Object["metadata"], "labels" | "annotations">;
};

function changesBetween(
  adapter: KindAdapter,
  before: V1Object | undefined,
  after: Shown,
): readonly FieldChange[] {
  const shown = (object: Shown | undefined): unknown => ({
    metadata: { labels: object?.metadata.labels ?? {}, annotations: object?.metadata.annotations ?? {} },
    spec: object?.spec ?? {},
  });
  const secrets = secretFields(adapter.kind.spec, "spec");
  return diffFields(shown(before), shown(after), "", (path) => {
    // Of one entry of a list: spec.disks[scsi0].key.
    const field = path.replaceAll(/\[[^\]]*\]/g, "");
    return secrets.has(field) || adapter.act?.secrets.has(field) === true;
  });
}

function adapterOf(adapters: readonly KindAdapter[], kind: string): KindAdapter {
  const appliable = adapters.filter(isAppliable);
  const found = appliable.find((adapter) => adapter.kind.kind === kind);
  if (found !== undefined) return found;
  const refusal = findKind(kind)?.notApplied;
  if (refusal !== undefined)
    throw new AppError("request.invalid", `a ${kind} cannot be applied: ${refusal}`, {
      errors: { kind: refusal },
    });
  const names = appliable.map((adapter) => adapter.kind.kind);
  const close = didYouMean(kind, names);
  const hint = close === undefined ? `use one of ${names.join(", ")}` : `did you mean '${close}'?`;
  throw new AppError("request.invalid", `'${kind}' is not a kind that can be applied; ${hint}`, {
    errors: { kind: hint },
  });
}

function refused(kind: string, name: string, err: unknown): PlanItem {
  return { kind, name, action: "refused", changes: [], problem: problemOf(err) };
}
