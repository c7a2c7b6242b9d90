// Our errors in etcd's words. Clients match on code and text, so both are etcd's to the letter.
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorDetailSchema } from "@gpve/contracts/gen/proto/gpve/agent/v1/error_pb.ts";
import { type AppError, type ErrorKind, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { type Refusal, refusalOf } from "../refusals.ts";

const refusals: Readonly<Record<Refusal, readonly [Code, string]>> = {
  emptyKey: [Code.InvalidArgument, "etcdserver: key is not provided"],
  noKey: [Code.InvalidArgument, "etcdserver: key not found"],
  valueProvided: [Code.InvalidArgument, "etcdserver: value is provided"],
  leaseProvided: [Code.InvalidArgument, "etcdserver: lease is provided"],
  tooManyOps: [Code.InvalidArgument, "etcdserver: too many operations in txn request"],
  duplicateKey: [Code.InvalidArgument, "etcdserver: duplicate key given in txn request"],
  tooLarge: [Code.InvalidArgument, "etcdserver: request is too large"],
  compacted: [Code.OutOfRange, "etcdserver: mvcc: required revision has been compacted"],
  futureRevision: [Code.OutOfRange, "etcdserver: mvcc: required revision is a future revision"],
  noSpace: [Code.ResourceExhausted, "etcdserver: mvcc: database space exceeded"],
  tooMany: [Code.ResourceExhausted, "etcdserver: too many requests"],
  noLease: [Code.NotFound, "etcdserver: requested lease not found"],
  leaseExists: [Code.FailedPrecondition, "etcdserver: lease already exists"],
  leaseTtl: [Code.OutOfRange, "etcdserver: too large lease TTL"],
};

export const PERMISSION_DENIED = "etcdserver: permission denied";
export const TOO_MANY_REQUESTS = "etcdserver: too many requests";

const kinds: Partial<Record<ErrorKind, Code>> = {
  unauthenticated: Code.Unauthenticated,
  unavailable: Code.Unavailable,
  unsupported: Code.Unimplemented,
};

export function toEtcd(err: unknown): Error {
  if (!isAppError(err)) return err instanceof Error ? err : new Error(messageOf(err), { cause: err });
  const reason = refusalOf(err);
  if (reason !== undefined) {
    const [code, text] = refusals[reason];
    return new ConnectError(text, code, undefined, detailOf(err), err);
  }
  if (err.kind === "forbidden") return denied(err);
  const code = err.code === "operation.cancelled" ? Code.Canceled : (kinds[err.kind] ?? Code.Unknown);
  return new ConnectError(err.message, code, undefined, undefined, err);
}

/** etcd's words for its clients; a client of ours also reads which key it was. */
function denied(err: AppError): ConnectError {
  return new ConnectError(PERMISSION_DENIED, Code.PermissionDenied, undefined, detailOf(err), err);
}

function detailOf({ code, message }: AppError) {
  const value = create(ErrorDetailSchema, { code, message, dataJson: "{}" });
  return [{ desc: ErrorDetailSchema, value }];
}

export function unimplemented(text: string): ConnectError {
  return new ConnectError(`etcdserver: ${text}`, Code.Unimplemented);
}

/** Runs a call and lets its failures out in etcd's words. */
export async function inEtcdWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    throw toEtcd(err);
  }
}
