// What an apply wrote, so that its undo can tell it from what somebody else has written since. Contents are compared,
// not revisions: they are known before the write, and so also after a crash between the write and the journal.
import { createHash } from "node:crypto";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { type Fields, isObject } from "@gpve/contracts/json-object.ts";
import {
  idOf,
  type KindAdapter,
  type ObjectName,
  type RawObject,
  readNamed,
  type Reader,
} from "./adapter.ts";
import { sameJson } from "./merge-patch.ts";
import { readMeta, type MetaRecord } from "./object-meta.ts";

/** What an object was before its step. */
export interface Before {
  readonly spec: Fields;
  readonly labels: Readonly<Record<string, string>>;
  readonly meta: MetaRecord | null;
}

/** What its step has left behind. */
export interface Trace {
  readonly digest: string;
  /** Of the moment, as a guest may stop by itself: not part of the digest. */
  readonly running?: boolean;
  /** Tells the object from another one of its name; 0 = not known. */
  readonly createRevision: number;
}

/** The parts of an applied object that its step set out to write. */
export interface Wanted {
  readonly spec: Fields;
  readonly labels?: Readonly<Record<string, string>>;
}

export const CHANGED = "somebody else has changed it since; it was left as it is";
export const NOT_OURS = "it is none that this apply made; it was left as it is";
export const GONE = "somebody else has removed it since; it was not made again";

/** null = it does not exist. */
export function beforeOf(reader: Reader, adapter: KindAdapter, named: ObjectName): Before | null {
  const raw = readNamed(adapter, reader, named);
  if (raw === undefined) return null;
  const meta = readMeta(reader, adapter.kind.kind, idOf(raw))?.value;
  return { spec: raw.spec, labels: raw.labels ?? meta?.labels ?? {}, meta: meta ?? null };
}

export function traceOf({ spec, metadata }: V1Object, createRevision = 0): Trace {
  const { running, ...rest } = spec;
  const text = canonicalJson([rest, metadata.labels, metadata.annotations]);
  return {
    digest: createHash("sha256").update(text).digest("hex"),
    ...(typeof running === "boolean" ? { running } : {}),
    createRevision,
  };
}

/** Whether what is there is what the step left. */
export function isTraceOf(trace: Trace, found: V1Object, raw: RawObject): boolean {
  if (trace.digest !== traceOf(found).digest) return false;
  return trace.createRevision === 0 || trace.createRevision === raw.createRevision;
}

/** Keys that change when others do: a disk taken away becomes an unused one and leaves the boot order. */
const FOLLOWING = /^(?:unused\d+|boot|lock)$/;

/**
 * For a step that stopped halfway and left no trace: whether something changed that it had no mind to change. What it
 * had is taken for its own, as it need not read as it was written ("local:4" becomes a volume's name).
 */
export function isOutsideOf(
  wanted: Wanted,
  before: Before,
  found: V1Object,
  parts: (spec: Fields) => Fields = (spec) => (isObject(spec["config"]) ? spec["config"] : spec),
): boolean {
  const { labels } = found.metadata;
  if (!sameJson(labels, before.labels) && !sameJson(labels, wanted.labels ?? before.labels)) return true;
  const [was, aim, is] = [before.spec, wanted.spec, found.spec].map(parts) as [Fields, Fields, Fields];
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].some(
    (key) => !FOLLOWING.test(key) && sameJson(aim[key], was[key]) && !sameJson(is[key], was[key]),
  );
}
