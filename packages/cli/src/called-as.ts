// Hints are commands to copy: they are spelled as the reader called gpvectl, who may have it only as `./gpve ctl`.
import { shellWord } from "@gpve/kit/shell-word.ts";
import type { GlobalOptions } from "./command.ts";
import type { CliIo } from "./io.ts";

/** A command line in a text, or its beginning in a list of examples. */
const COMMAND = /(^|[\s(`])gpvectl (?=[a-z[-])/g;

/** Turns "gpvectl" in front of a command into what runs it here, on the same server. */
export function calledAs(
  io: Pick<CliIo, "env">,
  global: Pick<GlobalOptions, "data" | "context"> = {},
): (text: string) => string {
  const words = [
    io.env["GPVE_CALLED_AS"] ?? "gpvectl",
    ...(global.data === undefined ? [] : ["--data", shellWord(global.data)]),
    ...(global.context === undefined ? [] : ["--context", shellWord(global.context)]),
  ];
  const name = words.join(" ");
  return (text) => text.replace(COMMAND, (_all, before: string) => `${before}${name} `);
}
