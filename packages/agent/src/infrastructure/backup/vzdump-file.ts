import { parseVzdumpConf } from "@gpve/domain/backup/vzdump-defaults.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import type { Logger } from "@gpve/kit/logger.ts";

/** What the node's vzdump.conf says; what cannot be read in it is said. */
export function readVzdumpFile(
  file: string,
  log: Pick<Logger, "warn">,
): ReturnType<typeof parseVzdumpConf>["settings"] {
  const { settings, problems } = parseVzdumpConf(readTextFile(file) ?? "");
  for (const problem of problems) log.warn({ file }, problem);
  return settings;
}
