import { missing, refused } from "@gpve/domain/request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";

export function noSuchFile(path: readonly string[]): AppError {
  return missing(`no such file in the backup: '/${path.join("/")}'`);
}

export function notADirectory(path: readonly string[]): AppError {
  return refused(`not a directory in the backup: '/${path.join("/")}'`);
}
