import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { refusal } from "../refusals.ts";

const BUSY = 5;
const FULL = 13;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

/** Turns what SQLite throws into our vocabulary; leaves AppErrors alone. */
export function fromSqlite(err: unknown, path: string): AppError {
  if (err instanceof AppError) return err;
  const options = { cause: err, data: { path } };
  switch (primaryCode(err)) {
    case FULL:
      return refusal(
        "noSpace",
        `the store ${path} is full: free disk space, then try again; nothing was written`,
        options,
      );
    case BUSY:
      return new AppError(
        "store.unavailable",
        `the store ${path} is in use by another process; stop that one first`,
        options,
      );
    case CORRUPT:
    case NOT_A_DATABASE:
      return new AppError(
        "store.unavailable",
        `the store ${path} is damaged (${messageOf(err)}); restore it from a backup`,
        options,
      );
    default:
      return new AppError("store.unavailable", `the store ${path} failed: ${messageOf(err)}`, options);
  }
}

/** The low byte names the error, the rest its variety. */
function primaryCode(err: unknown): number {
  if (typeof err !== "object" || err === null || !("errcode" in err)) return 0;
  return typeof err.errcode === "number" ? err.errcode & 0xff : 0;
}
