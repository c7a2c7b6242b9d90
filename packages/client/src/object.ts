// Objects of /api/v1 as a client sees them. The server's OpenAPI document is the full truth.

export interface ObjectMeta {
  readonly name: string;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly resourceVersion?: string;
  readonly creationTimestamp?: string;
}

export interface V1Object {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** What a client sends: read-only fields may be left out, and the name where it follows from spec. */
export interface V1ObjectInput {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

export interface V1Column {
  readonly header: string;
  /** Path into the object, "status.health". */
  readonly field: string;
  readonly format?: string;
  /** Shown only by wide tables. */
  readonly wide?: boolean;
}

/** One kind as the server describes it at /api/v1. */
export interface V1Kind {
  readonly kind: string;
  /** "tenants": the path below /api/v1. */
  readonly plural: string;
  readonly aliases: readonly string[];
  readonly description: string;
  readonly verbs: readonly string[];
  readonly columns: readonly V1Column[];
  readonly describe: readonly { readonly title: string; readonly fields: readonly string[] }[];
  readonly appliable: boolean;
}

export interface FieldChange {
  readonly path: string;
  readonly op: "add" | "replace" | "remove";
  readonly before?: unknown;
  readonly after?: unknown;
}

export interface PlanItem {
  readonly kind: string;
  readonly name: string;
  readonly action: "create" | "update" | "unchanged" | "refused";
  readonly changes: readonly FieldChange[];
  readonly problem?: { readonly code: string; readonly detail: string };
}

export interface PlanResult {
  readonly items: readonly PlanItem[];
  /** False: an item is refused, apply would do nothing at all. */
  readonly applicable: boolean;
}

export interface ApplyResult {
  readonly items: readonly PlanItem[];
  /** UPID; absent when nothing had to change. */
  readonly task?: string;
}

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

export type WatchEventType = "ADDED" | "MODIFIED" | "DELETED";

export interface V1WatchEvent {
  readonly type: WatchEventType;
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
