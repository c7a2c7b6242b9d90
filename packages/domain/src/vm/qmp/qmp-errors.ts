import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";

/** QEMU's error classes; everything else is GenericError. */
export type QmpErrorClass =
  | "GenericError"
  | "CommandNotFound"
  | "DeviceNotActive"
  | "DeviceNotFound"
  | "KVMMissingCap";

/** QEMU answered and said no. Its own class and text are in `data`. */
export function qmpRefused(label: string, command: string, errorClass: string, desc: string): AppError {
  return new AppError("qmp.failed", `${label} qmp command '${command}' failed - ${desc}`, {
    pveStatus: 500,
    data: { command, class: errorClass, desc },
  });
}

export function qmpTimeout(label: string, command: string, timeoutMs: number): AppError {
  return new AppError("request.timeout", `${label} qmp command '${command}' failed - got timeout`, {
    pveStatus: 500,
    data: { command, timeoutMs },
  });
}

/** The connection ended before the answer came: whether the command ran is unknown. */
export function qmpLost(label: string, command: string, cause?: unknown): AppError {
  return new AppError(
    "qmp.disconnected",
    `${label} qmp command '${command}' failed - QEMU closed the connection`,
    { pveStatus: 500, data: { command }, ...given({ cause }) },
  );
}

export function qmpCancelled(label: string, command: string): AppError {
  return new AppError("operation.cancelled", `${label} qmp command '${command}' was cancelled`);
}

/** True when QEMU itself refused, optionally with one class. */
export function isQmpRefusal(err: unknown, errorClass?: QmpErrorClass): boolean {
  return (
    err instanceof AppError &&
    err.code === "qmp.failed" &&
    (errorClass === undefined || err.data["class"] === errorClass)
  );
}
