import { AppError } from "@gpve/contracts/errors.ts";

export function noSuchFile(path: readonly string[]): AppError {
  return new AppError("object.not_found", `no such file in the backup: '/${path.join("/")}'`, {
    pveStatus: 500,
  });
}

export function notADirectory(path: readonly string[]): AppError {
  return new AppError("request.invalid", `not a directory in the backup: '/${path.join("/")}'`, {
    pveStatus: 500,
  });
}
