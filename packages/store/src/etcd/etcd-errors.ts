import { Code, ConnectError } from "@connectrpc/connect";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { isForgotten } from "./token-auth.ts";
import { type Refusal, refusal } from "../refusals.ts";

/** What a failed call means for the caller. */
export type Failure =
  /** The server answered: trying elsewhere gives the same. */
  | { readonly type: "final"; readonly error: AppError }
  /** Nothing happened: another endpoint may do it. */
  | { readonly type: "elsewhere"; readonly error: ConnectError }
  /** The answer is lost: the request may have taken effect, now or later. */
  | { readonly type: "lost"; readonly error: ConnectError };

const answers: readonly (readonly [text: string, reason: Refusal])[] = [
  ["required revision has been compacted", "compacted"],
  ["required revision is a future revision", "futureRevision"],
  ["requested lease not found", "noLease"],
  ["lease already exists", "leaseExists"],
  ["too large lease TTL", "leaseTtl"],
  ["key not found", "noKey"],
  ["duplicate key given", "duplicateKey"],
  ["too many operations", "tooManyOps"],
  ["request is too large", "tooLarge"],
  ["database space exceeded", "noSpace"],
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
  // Ours already, thrown before anything went out.
  if (error.cause instanceof AppError) return { type: "final", error: error.cause };
  const text = error.rawMessage;
  const known = answers.find(([words]) => text.includes(words));
  // A server of ours says whom it refused what; other members only that they did.
  const told = appErrorOf(error);
  if (known !== undefined) {
    const message = told?.message ?? `etcd: ${strip(text)}`;
    return { type: "final", error: refusal(known[1], message, { cause }) };
  }
  if (isAppError(told, "access.denied")) return { type: "final", error: told };
  if (invalid.has(error.code)) {
    return {
      type: "final",
      error: new AppError("request.invalid", `etcd refused the request: ${strip(text)}`, { cause }),
    };
  }
  if (isForgotten(error)) return { type: "elsewhere", error };
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
