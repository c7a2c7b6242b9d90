// One request to an operation that is no plain object of a kind, and its answer.
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { IdempotentRequest } from "../../application/v1/idempotency.ts";

export interface Call {
  /** Of a kind whose names are their tenant's, `name` is the id of the object that is meant. */
  readonly params: Readonly<Record<string, string>>;
  /** `name` as the path has it. */
  readonly called?: string;
  /** Whose it is, or was. */
  readonly tenant?: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly ctx: RequestContext;
  readonly once: IdempotentRequest | undefined;
  /** The object the route is on, already permitted. */
  readonly object: V1Object | undefined;
}

export interface Reply {
  /** Default: the status the route declares. */
  readonly status?: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}
