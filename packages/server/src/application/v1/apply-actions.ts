// Steps of an apply whose objects are changed by work on a node, and how they are taken back.
import type { Fields } from "@gpve/contracts/v1/object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { cacheReader } from "./adapter.ts";
import type { KindAdapter, Reader } from "./adapter.ts";
import { sameJson } from "./merge-patch.ts";
import { actionsOf, putByAction } from "./object-actions.ts";
import { metaCollection, metaId } from "./object-meta.ts";
import type { MetaRecord } from "./object-meta.ts";
import type { CheckedObject } from "./validation.ts";
import type { Outcome, Write } from "./write-object.ts";

/** What an object was before its step; null = it did not exist. */
export interface Before {
  readonly spec: Fields;
  readonly labels: Readonly<Record<string, string>>;
  readonly meta: MetaRecord | null;
}

/** What a first change gives up, such as a disk that becomes unused, a second one removes. */
const CHANGES_TO_GO_BACK = 3;

/** undefined = there is nothing to do. */
export async function applyByAction(
  deps: { readonly records: Records; readonly clock: Clock },
  write: Write & { readonly object: CheckedObject },
  step: {
    readonly isApplied: (reader: Reader, spec: Fields) => boolean;
    /** Remembers, durably, whether what is there under the name comes from this step. */
    readonly made: (made: boolean) => Promise<void>;
  },
): Promise<Outcome | undefined> {
  const { adapter, object, ctx } = write;
  const { name } = object.metadata;
  await deps.records.fresh({ signal: ctx.signal });
  const reader = cacheReader(deps.records);
  if (adapter.get(reader, name) !== undefined) {
    const settled = actionsOf(adapter).settle(reader, { name, spec: object.spec, ctx });
    return step.isApplied(reader, settled) ? undefined : putByAction(deps, write);
  }
  await step.made(true);
  try {
    return await putByAction(deps, write);
  } catch (err) {
    // The node takes back what it could not finish. One that is still at work has not failed: its VM must go.
    if (!ctx.signal.aborted) await step.made(false);
    throw err;
  }
}

/** `before` null: the step made it. */
export async function restoreByAction(
  records: Records,
  adapter: KindAdapter,
  { name, ctx }: { readonly name: string; readonly ctx: RequestContext },
  before: Before | null,
): Promise<void> {
  const act = actionsOf(adapter);
  const look = async () => {
    await records.fresh({ signal: ctx.signal });
    return adapter.get(cacheReader(records), name);
  };
  let raw = await look();
  if (before === null) {
    if (raw !== undefined) await act.discard({ name, previous: raw, ctx });
  } else {
    for (let left = CHANGES_TO_GO_BACK; left > 0 && raw !== undefined; left--) {
      if (sameJson(raw.spec, before.spec)) break;
      await act.change({ name, spec: before.spec, previous: raw, ctx });
      raw = await look();
    }
  }
  const { kind } = adapter.kind;
  const meta = before?.meta ?? null;
  await records.transact((tx) => {
    if (meta === null) tx.delete(metaCollection, metaId(kind, name));
    else tx.put(metaCollection, metaId(kind, name), meta);
  });
}
