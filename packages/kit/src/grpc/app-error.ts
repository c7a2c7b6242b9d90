// AppError over gRPC: the status code is for foreign tools, the detail carries the error itself.
import { given } from "@gpve/contracts/given.ts";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  AppError,
  errorCodes,
  isAppError,
  messageOf,
  type ErrorCode,
  type ErrorKind,
} from "@gpve/contracts/errors.ts";
import { ErrorDetailSchema } from "@gpve/contracts/gen/proto/gpve/agent/v1/error_pb.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";

const statusOf = {
  invalid: Code.InvalidArgument,
  unauthenticated: Code.Unauthenticated,
  forbidden: Code.PermissionDenied,
  notFound: Code.NotFound,
  exists: Code.AlreadyExists,
  conflict: Code.Aborted,
  busy: Code.FailedPrecondition,
  noCapacity: Code.ResourceExhausted,
  unsupported: Code.Unimplemented,
  unavailable: Code.Unavailable,
  timeout: Code.DeadlineExceeded,
  internal: Code.Internal,
} as const satisfies Record<ErrorKind, Code>;

/** What to throw from a gRPC handler. An error we did not make goes out as internal.error with its message. */
export function toConnectError(err: unknown): ConnectError {
  if (err instanceof ConnectError) return err;
  const error = isAppError(err) ? err : new AppError("internal.error", messageOf(err), { cause: err });
  const detail = create(ErrorDetailSchema, {
    code: error.code,
    message: error.message,
    errors: { ...error.errors },
    hasErrors: error.errors !== undefined,
    dataJson: JSON.stringify(error.data),
    ...given({ pveStatus: error.pveStatus }),
  });
  return new ConnectError(
    error.message,
    statusOf[error.kind],
    undefined,
    [{ desc: ErrorDetailSchema, value: detail }],
    err,
  );
}

/** The AppError the other side threw; undefined when the failure is the transport's own. */
export function appErrorOf(err: unknown): AppError | undefined {
  if (isAppError(err)) return err;
  if (!(err instanceof ConnectError)) return undefined;
  const detail = err.findDetails(ErrorDetailSchema)[0];
  if (detail === undefined) return undefined;
  return new AppError(asCode(detail.code), detail.message, {
    data: asObject(detail.dataJson),
    ...(detail.hasErrors ? { errors: { ...detail.errors } } : {}),
    ...given({ pveStatus: detail.pveStatus }),
  });
}

function asCode(code: string): ErrorCode {
  return Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : "internal.error";
}

function asObject(json: string): Fields {
  try {
    return fieldsOf(JSON.parse(json));
  } catch {
    return {};
  }
}
