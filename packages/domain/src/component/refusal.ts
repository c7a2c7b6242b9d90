// Why programs could not be brought. A source that has not got a version is another matter than one that nobody reaches, and
// programs that are not what their publisher vouches for are another matter again: only after the first may an older one do.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";

type Fault = "refused" | "forged";

const fault = (kind: Fault, message: string): AppError =>
  new AppError(kind === "refused" ? "object.not_found" : "request.invalid", message, {
    data: { fault: kind },
  });

const hasFault = (err: unknown, kind: Fault): boolean => isAppError(err) && err.data["fault"] === kind;

/** It answered that it has not got this. */
export const notHad = (message: string): AppError => fault("refused", message);
export const isNotHad = (err: unknown): boolean => hasFault(err, "refused");

/** It is not what its publisher vouches for. */
export const forged = (message: string): AppError => fault("forged", message);
export const isForged = (err: unknown): boolean => hasFault(err, "forged");
