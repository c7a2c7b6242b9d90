// Steps of an apply whose objects are changed by work on a node, and how they are taken back.
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { LeftAsItIs } from "@gpve/kit/operation/definition.ts";
import type { Records } from "@gpve/store/records/port.ts";
import {
  cacheReader,
  idFor,
  idOf,
  readNamed,
  type KindActions,
  type KindAdapter,
  type ObjectName,
  type RawObject,
  type Reader,
} from "./adapter.ts";
import {
  CHANGED,
  GONE,
  isOutsideOf,
  isTraceOf,
  NOT_OURS,
  type Before,
  type Trace,
  type Wanted,
} from "./apply-traces.ts";
import { sameJson } from "./merge-patch.ts";
import { actionsOf, putByAction } from "./object-actions.ts";
import { metaCollection, metaId, projectObject, readMeta } from "./object-meta.ts";
import type { CheckedObject } from "./validation.ts";
import type { WriteOutcome, Write } from "./write-object.ts";

/** What a first change gives up, such as a disk that becomes unused, a second one removes. */
const CHANGES_TO_GO_BACK = 3;

/** undefined = there is nothing to do. */
export async function applyByAction(
  deps: { readonly records: Records; readonly clock: Clock },
  write: Write & { readonly object: CheckedObject },
  step: {
    readonly isApplied: (reader: Reader, spec: Fields) => boolean;
  },
): Promise<WriteOutcome | undefined> {
  const { adapter, object, ctx } = write;
  const { name } = object.metadata;
  await deps.records.fresh({ signal: ctx.signal });
  const reader = cacheReader(deps.records);
  if (readNamed(adapter, reader, object.metadata) !== undefined) {
    const settled = actionsOf(adapter).settle(reader, {
      name,
      namespace: object.metadata.namespace,
      spec: object.spec,
      ctx,
    });
    return step.isApplied(reader, settled) ? undefined : putByAction(deps, write);
  }
  return putByAction(deps, write);
}

/** `before` null: it was not there. What is there then is the step's if its request made it. Throws LeftAsItIs where somebody else has changed it since. */
export async function restoreByAction(
  records: Records,
  adapter: KindAdapter,
  { named, ctx }: { readonly named: ObjectName; readonly ctx: RequestContext },
  undo: {
    readonly before: Before | null;
    /** undefined = the step stopped halfway. */
    readonly trace: Trace | undefined;
    readonly wanted: Wanted;
    /** An undo that has begun goes on: what it finds then is half its own. */
    readonly hasBegun: boolean;
    readonly begin: () => Promise<void>;
  },
): Promise<void> {
  const act = actionsOf(adapter);
  const { kind } = adapter.kind;
  const { before, trace } = undo;
  const { name, namespace } = named;
  const look = async () => {
    await records.fresh({ signal: ctx.signal });
    return readNamed(adapter, cacheReader(records), named);
  };
  if (before === null) await act.forestall({ name, namespace, ctx });
  let raw = await look();
  const id = idFor(adapter, cacheReader(records), named);
  if (before === null && raw !== undefined && raw.madeBy !== ctx.requestId)
    throw new LeftAsItIs(`${kind} ${name}: ${NOT_OURS}`);
  if (!undo.hasBegun) {
    if (raw === undefined && before !== null) throw new LeftAsItIs(`${kind} ${name}: ${GONE}`);
    const found = raw && projectObject(kind, raw, readMeta(cacheReader(records), kind, idOf(raw)));
    if (raw !== undefined && found !== undefined && isForeign({ ...undo, parts: act.parts }, found, raw))
      throw new LeftAsItIs(`${kind} ${name}: ${CHANGED}`);
    await undo.begin();
  }
  if (before === null) {
    if (raw !== undefined) await act.discard({ name, previous: raw, ctx });
  } else {
    for (let left = CHANGES_TO_GO_BACK; left > 0 && raw !== undefined; left--) {
      // Who starts or stops what the step left running or not, means it.
      const keepsRunning = trace !== undefined && trace.running === before.spec["running"];
      const spec = keepsRunning ? { ...before.spec, running: raw.spec["running"] } : before.spec;
      if (sameJson(raw.spec, spec)) break;
      await act.change({ name, spec, previous: raw, ctx });
      raw = await look();
    }
  }
  const meta = before?.meta ?? null;
  await records.transact((tx) => {
    if (meta === null) tx.delete(metaCollection, metaId(kind, id));
    else tx.put(metaCollection, metaId(kind, id), meta);
  });
}

function isForeign(
  {
    before,
    trace,
    wanted,
    parts,
  }: {
    readonly before: Before | null;
    readonly trace: Trace | undefined;
    readonly wanted: Wanted;
    readonly parts: KindActions["parts"];
  },
  found: V1Object,
  raw: RawObject,
): boolean {
  if (trace === undefined) return before !== null && isOutsideOf(wanted, before, found, parts);
  // Made by the step and started by somebody: in use.
  const isInUse = before === null && raw.spec["running"] === true && trace.running !== true;
  return isInUse || !isTraceOf(trace, found, raw);
}
