// Failures of the storage area in PVE's words: unknown objects and refused changes are 500 there.
import { alreadyThere, missing, parameterError, refused } from "../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";

export function storageRefused(message: string, cause?: unknown): AppError {
  return refused(message, given({ cause }));
}

export function storageMissing(message: string, cause?: unknown): AppError {
  return missing(message, given({ cause }));
}

export function storageExists(message: string): AppError {
  return alreadyThere(message);
}

export function storageUnsupported(message: string): AppError {
  return new AppError("feature.unsupported", message);
}

/** 400 with the `errors` map. */
export function badStorageParameter(name: string, text: string): AppError {
  return parameterError({ [name]: text });
}
