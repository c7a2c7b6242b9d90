import type { LogFields, Logger } from "@gpve/kit/logger.ts";
import { silentLogger } from "@gpve/kit/logger.ts";

/** A log whose lines a test can read. */
export function heardLog(): { readonly log: Logger; readonly lines: string[]; readonly fields: LogFields[] } {
  const lines: string[] = [];
  const fields: LogFields[] = [];
  const at =
    (level: string) =>
    (given: LogFields, message: string): void => {
      lines.push(`${level} ${message}`);
      fields.push(given);
    };
  return { lines, fields, log: { ...silentLogger, info: at("info"), warn: at("warn"), error: at("error") } };
}
