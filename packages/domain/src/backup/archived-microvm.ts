// The microvm machine inside a backup: a line beside PVE's own hints in the archived configuration, which PVE itself
// leaves out when it restores.
import { refused } from "../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { Microvm } from "../guest/guest-record.ts";

const MARK = "#qmdump#microvm:";

/** The line, or nothing where there is nothing to tell. */
export function archivedMicrovm(microvm: Microvm | undefined): string {
  return microvm === undefined ? "" : `${MARK}${JSON.stringify(microvm)}\n`;
}

/** undefined = a VM of one of PVE's machines. Throws when the line is not one of ours. */
export function readArchivedMicrovm(conf: string): Microvm | undefined {
  const line = conf.split("\n").find((one) => one.startsWith(MARK));
  if (line === undefined) return undefined;
  const { kernel, initrd, cmdline } = readJson(line.slice(MARK.length));
  if (!isText(kernel) || !isTextOrAbsent(initrd) || !isTextOrAbsent(cmdline)) throw damaged();
  return {
    kernel,
    ...given({ initrd, cmdline }),
  };
}

function readJson(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  } catch {
    // Told below, as what it is to the user.
  }
  throw damaged();
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isTextOrAbsent(value: unknown): value is string | undefined {
  return value === undefined || isText(value);
}

function damaged(): AppError {
  return refused("the backup archive is damaged: it does not say what its microvm boots");
}
