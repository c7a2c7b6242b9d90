// Why a guest did not start: the program's own words where it had any.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFolder } from "./guest-folder.ts";

export function startFailure(label: string, why: string, folder: GuestFolder, cause?: unknown): AppError {
  const words = folder.lastWords();
  const own = words === "" ? why : words;
  return new AppError("guest.start_failed", `start of ${label} failed: ${own}`, {
    pveStatus: 500,
    data: { lastWords: words, reason: why },
    ...given({ cause }),
  });
}
