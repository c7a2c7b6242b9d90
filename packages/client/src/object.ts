// Objects of /api/v1 as a client handles them; their shape is declared in contracts.
import type { ApplyResult, FieldChange, KindInfo, PlanItem, PlanResult } from "@gpve/contracts/v1/bodies.ts";
import type { ObjectEventType, V1Object, V1ObjectInput } from "@gpve/contracts/v1/object.ts";

export type { ApplyResult, FieldChange, PlanItem, PlanResult, V1Object, V1ObjectInput };

/** One kind as the server describes it at /api/v1. */
export type V1Kind = KindInfo;

export interface V1Page {
  readonly items: readonly V1Object[];
  /** The state the page shows; watch from here. */
  readonly resourceVersion: string | undefined;
  /** Pass to the next call; absent on the last page. */
  readonly continueToken: string | undefined;
}

export interface ListOptions {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly limit?: number;
  readonly continueToken?: string;
  readonly signal?: AbortSignal;
}

export interface V1WatchEvent {
  readonly type: ObjectEventType;
  readonly object: V1Object;
  /** Watch from here to go on after this event. */
  readonly resourceVersion: string;
}

export interface WatchOptions {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Absent: current objects first, as ADDED, then changes. */
  readonly resourceVersion?: string;
  readonly signal?: AbortSignal;
}

export interface WriteOptions {
  /** Made up when absent. The same key twice gives the first answer again. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
}
