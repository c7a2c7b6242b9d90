// Applying many objects as one durable operation: a step per object, undone as a whole when one fails.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ApplyResult } from "@gpve/contracts/v1/bodies.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import {
  actorOf,
  type AccessView,
  type Actor,
  type RequestContext,
  type RequestLogger,
} from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { LeftAsItIs, type OperationDefinition, type StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { cacheReader, idOf, readNamed, type KindAdapter, type Reader } from "./adapter.ts";
import { applyByAction, restoreByAction } from "./apply-actions.ts";
import { beforeOf, CHANGED, GONE, isTraceOf, traceOf, type Before, type Trace } from "./apply-traces.ts";
import { sameJson } from "./merge-patch.ts";
import { objectLock } from "./object-lock.ts";
import { metaCollection, metaId, projectObject, readMeta } from "./object-meta.ts";
import { OverlayTx } from "./overlay-tx.ts";
import { planObjects, type PlanDeps } from "./plan-objects.ts";
import type { SealedItems } from "./sealed-items.ts";
import type { CheckedObject } from "./validation.ts";
import { removeObject, writeObject, type WriteOutcome, type Write } from "./write-object.ts";

export const APPLY_OPERATION = "applyobjects";

export interface ApplyItem {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
  readonly spec: Fields;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly resourceVersion?: string;
}

export interface ApplyArgs {
  readonly items: readonly ApplyItem[];
}

export interface ApplyState {
  /** By the step's name. */
  before: Record<string, Before | null>;
  /** What steps left behind, or are about to. */
  traces?: Record<string, Trace>;
  /** Undos by work on a node that have begun. */
  undoing?: Record<string, boolean>;
}

/** Starts the operation and answers with its UPID. The same request id gives the same operation. */
export type SubmitApply = (
  args: ApplyArgs,
  request: { readonly actor: Actor; readonly requestId: string; readonly traceparent?: string },
) => Promise<string>;

export async function applyObjects(
  deps: PlanDeps & { readonly submitApply: SubmitApply },
  objects: readonly unknown[],
  ctx: RequestContext,
  requestId: string,
): Promise<ApplyResult> {
  const plan = await planObjects(deps, objects, ctx);
  const { items } = plan.result;
  const refused = items.filter((item) => item.action === "refused");
  const [first] = refused;
  if (first !== undefined) {
    const code = first.problem?.code === "access.denied" ? "access.denied" : "request.invalid";
    const text = `${refused.length} of ${items.length} objects cannot be applied; nothing was changed. ${first.kind} '${first.name}': ${first.problem?.detail ?? ""}`;
    throw new AppError(code, text, { data: { items } });
  }
  if (plan.changes.length === 0) return { items };
  const { actor } = ctx;
  if (actor === undefined) throw new AppError("auth.required", "applying objects needs credentials");
  const args: ApplyArgs = {
    items: plan.changes.map(({ object }) => ({
      kind: object.kind,
      name: object.metadata.name,
      spec: object.spec,
      ...given({
        namespace: object.metadata.namespace,
        labels: object.metadata.labels,
        annotations: object.metadata.annotations,
        resourceVersion: object.metadata.resourceVersion,
      }),
    })),
  };
  const traceparent = ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent };
  return { items, task: await deps.submitApply(args, { actor, requestId, ...traceparent }) };
}

/** For kit/operation's registry. A crash is undone: half of what belongs together helps nobody. */
export function applyObjectsOperation(deps: {
  readonly records: Records;
  readonly clock: Clock;
  readonly adapters: readonly KindAdapter[];
  readonly accessOf: (actor: Actor) => AccessView;
  readonly log: RequestLogger;
  readonly seals: Pick<SealedItems, "open">;
}): OperationDefinition<ApplyArgs, ApplyState> {
  const adapters = new Map(deps.adapters.map((adapter) => [adapter.kind.kind, adapter]));
  const adapterOf = (kind: string): KindAdapter => {
    const adapter = adapters.get(kind);
    if (adapter === undefined)
      throw new AppError("feature.unsupported", `this server does not serve ${kind} objects`);
    return adapter;
  };
  const contextOf = (step: StepContext<ApplyArgs, ApplyState>, undoing = false): RequestContext => {
    const actor = actorOf(step.actor);
    return {
      requestId: step.id,
      actor,
      ...(undoing ? { access: RESTORING, work: "undo-apply" } : { access: deps.accessOf(actor) }),
      signal: step.signal,
      log: deps.log,
      clientAddress: "",
    };
  };
  return {
    type: APPLY_OPERATION,
    onCrash: "undo",
    initialState: () => ({ before: {} }),
    plan: (args) =>
      args.items.map((kept) => {
        const key = keyOf(kept, args.items);
        return {
          name: key,
          run: async (step) => {
            const adapter = adapterOf(kept.kind);
            const item = deps.seals.open(kept);
            const write = { adapter, object: objectOf(item), verb: "apply" as const, ctx: contextOf(step) };
            const outcome =
              adapter.act === undefined
                ? await writeTraced(deps, step, item, write)
                : await actTraced(deps, step, item, write);
            const what = outcome === undefined ? "unchanged" : outcome.created ? "created" : "updated";
            step.log(`${item.kind} ${item.name}: ${what}`);
          },
          undo: async (step) => {
            const before = step.state.before[key];
            if (before === undefined) return;
            const [adapter, ctx] = [adapterOf(kept.kind), contextOf(step, true)];
            const item = deps.seals.open(kept);
            if (adapter.act !== undefined) {
              await restoreByAction(
                deps.records,
                adapter,
                { named: item, ctx },
                {
                  before,
                  trace: step.state.traces?.[key],
                  wanted: item,
                  hasBegun: step.state.undoing?.[key] === true,
                  begin: async () => {
                    step.state.undoing = { ...step.state.undoing, [key]: true };
                    await step.checkpoint();
                  },
                },
              );
            } else
              await restore(
                deps.records,
                adapter,
                item.name,
                { before, trace: step.state.traces?.[key] },
                ctx,
              );
            step.log(`${item.kind} ${item.name}: ${before === null ? "removed again" : "put back"}`);
          },
        };
      }),
  };
}

/** Starts the operation on an engine. Objects of one name are changed one after the other. */
export function submitApplyTo(
  engine: Pick<OperationEngine, "submit">,
  seals: Pick<SealedItems, "seal">,
): SubmitApply {
  return async (args, { actor, requestId, traceparent }) => {
    const { upid } = await engine.submit({
      type: APPLY_OPERATION,
      resources: args.items.map(objectLock),
      args: { items: args.items.map((item) => seals.seal(item)) },
      actor: actor.authid,
      requestId,
      ...given({ traceparent }),
    });
    return upid;
  };
}

/**
 * Putting back what was there is not a change that needs permission: it was there with permission, and what is
 * undone may be the very permission.
 */
const RESTORING: AccessView = {
  privileges: () => new Map([["Permissions.Modify", true]]),
  has: () => true,
  require: () => undefined,
};

type ApplyStep = StepContext<ApplyArgs, ApplyState>;
type ItemWrite = Write & { readonly object: CheckedObject };

/** Of one step: with its tenant where another one of its name is applied with it. */
function keyOf({ kind, name, namespace }: ApplyItem, items: readonly ApplyItem[]): string {
  const alike = items.filter((each) => each.kind === kind && each.name === name);
  return alike.length > 1 ? `${kind} ${namespace}/${name}` : `${kind} ${name}`;
}

/** What was there and what will be is in the journal before it is written. undefined = there is nothing to do. */
async function writeTraced(
  { records, clock }: { readonly records: Records; readonly clock: Clock },
  { state, signal, checkpoint, args }: ApplyStep,
  item: ApplyItem,
  write: ItemWrite,
): Promise<WriteOutcome | undefined> {
  const key = keyOf(item, args.items);
  const { adapter } = write;
  for (;;) {
    await records.fresh({ signal });
    const reader = cacheReader(records);
    if (isApplied(reader, adapter, item)) return undefined;
    const before = beforeOf(reader, adapter, item);
    const { object } = writeObject(new OverlayTx(reader), clock.now(), write);
    state.before[key] = before;
    state.traces = { ...state.traces, [key]: traceOf(object) };
    await checkpoint();
    let isOurs = false;
    const outcome = await records
      .transact(
        (tx) => {
          isOurs = false;
          if (!sameJson(beforeOf(tx, adapter, item), before)) return undefined;
          const written = writeObject(tx, clock.now(), write);
          isOurs = true;
          return written;
        },
        { signal },
      )
      .finally(() => {
        if (!isOurs) delete state.before[key];
      });
    if (outcome !== undefined) return outcome;
    // Somebody else was quicker: what is there now is what an undo has to bring back.
  }
}

async function actTraced(
  deps: { readonly records: Records; readonly clock: Clock },
  step: ApplyStep,
  item: ApplyItem,
  write: ItemWrite,
): Promise<WriteOutcome | undefined> {
  const key = keyOf(item, step.args.items);
  const { adapter } = write;
  const isFirst = step.state.before[key] === undefined;
  if (isFirst) {
    await deps.records.fresh({ signal: step.signal });
    step.state.before[key] = beforeOf(cacheReader(deps.records), adapter, item);
    await step.checkpoint();
  }
  const outcome = await applyByAction(deps, write, {
    isApplied: (reader, spec) => isApplied(reader, adapter, { ...item, spec }),
  });
  if (outcome === undefined) {
    // Nothing done, nothing to undo; a step that runs again finds its own work.
    if (isFirst) delete step.state.before[key];
  } else {
    const raw = readNamed(adapter, cacheReader(deps.records), item);
    step.state.traces = { ...step.state.traces, [key]: traceOf(outcome.object, raw?.createRevision) };
  }
  return outcome;
}

function objectOf(item: ApplyItem): CheckedObject {
  const { kind, name, namespace, spec, labels, annotations, resourceVersion } = item;
  const metadata = {
    name,
    ...given({ namespace }),
    ...(labels === undefined ? {} : { labels: { ...labels } }),
    ...(annotations === undefined ? {} : { annotations: { ...annotations } }),
    ...given({ resourceVersion }),
  };
  return { apiVersion: API_VERSION, kind, metadata, spec };
}

function isApplied(tx: Reader, adapter: KindAdapter, item: ApplyItem): boolean {
  const raw = readNamed(adapter, tx, item);
  if (raw === undefined || !sameJson(raw.spec, item.spec)) return false;
  const meta = readMeta(tx, item.kind, idOf(raw))?.value;
  const same = (wanted: object | undefined, found: object | undefined): boolean =>
    wanted === undefined || sameJson(wanted, found ?? {});
  return same(item.labels, raw.labels ?? meta?.labels) && same(item.annotations, meta?.annotations);
}

/** In one transaction, so that nothing comes between looking and writing. */
async function restore(
  records: Records,
  adapter: KindAdapter,
  name: string,
  { before, trace }: { readonly before: Before | null; readonly trace: Trace | undefined },
  ctx: RequestContext,
): Promise<void> {
  const { kind } = adapter.kind;
  await records.transact((tx) => {
    const raw = adapter.get(tx, name);
    if (sameJson(beforeOf(tx, adapter, { name }), before)) return;
    if (raw === undefined) throw new LeftAsItIs(`${kind} ${name}: ${GONE}`);
    const found = projectObject(kind, raw, readMeta(tx, kind, name));
    if (trace === undefined || !isTraceOf(trace, found, raw))
      throw new LeftAsItIs(`${kind} ${name}: ${CHANGED}`);
    if (before === null) {
      removeObject(tx, { adapter, id: name, resourceVersion: undefined, ctx });
      return;
    }
    const labels = raw.labels ?? before.labels;
    if (!sameJson(raw.spec, before.spec) || !sameJson(labels, before.labels)) {
      adapter.write?.put(tx, { name, spec: before.spec, labels: before.labels, previous: raw, ctx });
    }
    if (before.meta === null) tx.delete(metaCollection, metaId(kind, name));
    else tx.put(metaCollection, metaId(kind, name), before.meta);
  });
}
