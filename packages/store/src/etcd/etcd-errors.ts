import { Code, ConnectError } from "@connectrpc/connect";
import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";

/** What a failed call means for the caller. */
export type Failure =
  /** The server answered: trying elsewhere gives the same. */
  | { readonly type: "final"; readonly error: AppError }
  /** Nothing happened: another endpoint may do it. */
  | { readonly type: "elsewhere"; readonly error: ConnectError }
  /** The answer is lost: the request may have taken effect, now or later. */
  | { readonly type: "lost"; readonly error: ConnectError };

const answers: readonly (readonly [text: string, code: ErrorCode])[] = [
  ["required revision has been compacted", "store.compacted"],
  ["required revision is a future revision", "request.invalid"],
  ["requested lease not found", "object.not_found"],
  ["lease already exists", "object.exists"],
  ["too large lease TTL", "request.invalid"],
  ["key not found", "object.not_found"],
  ["duplicate key given", "request.invalid"],
  ["too many operations", "request.too_large"],
  ["request is too large", "request.too_large"],
  ["database space exceeded", "store.full"],
];

/** These are sent before etcd proposes anything. */
const refusals = ["no leader", "too many requests", "not capable", "member not found", "learner"];

const invalid: ReadonlySet<Code> = new Set([Code.InvalidArgument, Code.FailedPrecondition, Code.OutOfRange]);
const denied: ReadonlySet<Code> = new Set([Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented]);

export function judge(cause: unknown, signal: AbortSignal | undefined): Failure {
  const error = ConnectError.from(cause);
  if (signal?.aborted === true) {
    return {
      type: "final",
      error: new AppError("operation.cancelled", "the request to etcd was cancelled", { cause }),
    };
  }
  const text = error.rawMessage;
  const known = answers.find(([words]) => text.includes(words));
  if (known !== undefined) {
    return { type: "final", error: new AppError(known[1], `etcd: ${strip(text)}`, { cause }) };
  }
  if (invalid.has(error.code)) {
    return {
      type: "final",
      error: new AppError("request.invalid", `etcd refused the request: ${strip(text)}`, { cause }),
    };
  }
  if (denied.has(error.code)) {
    return {
      type: "final",
      error: new AppError("store.unavailable", `etcd refused us: ${strip(text)}`, { cause }),
    };
  }
  return { type: refusals.some((words) => text.includes(words)) ? "elsewhere" : "lost", error };
}

function strip(text: string): string {
  return text.replace(/^etcdserver: (mvcc: )?/, "");
}
