// What a machine's refusals mean, whatever its version.
import { Code, ConnectError } from "@connectrpc/connect";
import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";
import { nodeErrorCode, rootMessage } from "@gpve/kit/grpc/channel.ts";

const codes: Readonly<Partial<Record<Code, ErrorCode>>> = {
  [Code.InvalidArgument]: "request.invalid",
  [Code.Unauthenticated]: "auth.failed",
  [Code.PermissionDenied]: "access.denied",
  [Code.NotFound]: "object.not_found",
  [Code.AlreadyExists]: "object.exists",
  /** Not yet: another work is going on, the time is not in sync. */
  [Code.FailedPrecondition]: "resource.busy",
  [Code.Unimplemented]: "feature.unsupported",
  [Code.Unavailable]: "node.unavailable",
  [Code.DeadlineExceeded]: "request.timeout",
  [Code.Canceled]: "operation.cancelled",
};

export function talosError(err: unknown, doing: string, address: string): AppError {
  if (err instanceof AppError) return err;
  const cause = ConnectError.from(err);
  const reason = nodeErrorCode(err) ?? "";
  // One of the two does not take the other's certificate: it is not configured yet, or of another cluster.
  const isStranger = /^ERR_SSL_|^ERR_TLS_|CERT|SIGNATURE/.test(reason);
  const isCut = /^E(?:PIPE|CONN\w+|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/.test(reason);
  const known = isCut ? "node.unavailable" : codes[cause.code];
  const code = isStranger ? "auth.failed" : (known ?? "internal.error");
  return new AppError(code, `${doing} at ${address}: ${rootMessage(cause)}`, { cause, data: { address } });
}
