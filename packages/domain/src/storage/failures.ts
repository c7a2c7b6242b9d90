// Failures of the storage area in PVE's words: unknown objects and refused changes are 500 there.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";

export function storageRefused(message: string, cause?: unknown): AppError {
  return new AppError("request.invalid", message, {
    pveStatus: 500,
    ...given({ cause }),
  });
}

export function storageMissing(message: string, cause?: unknown): AppError {
  return new AppError("object.not_found", message, { pveStatus: 500, ...given({ cause }) });
}

export function storageExists(message: string): AppError {
  return new AppError("object.exists", message, { pveStatus: 500 });
}

export function storageUnsupported(message: string): AppError {
  return new AppError("feature.unsupported", message);
}

/** 400 with the `errors` map. */
export function badStorageParameter(name: string, text: string): AppError {
  return new AppError("request.invalid", "Parameter verification failed.", { errors: { [name]: text } });
}
