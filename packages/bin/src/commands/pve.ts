import { nodeIo } from "@gpve/cli/node-io.ts";
import { runPveCommand } from "@gpve/cli/pve-commands/run-pve-command.ts";
import { defaultDataDir } from "./options.ts";

/** One of PVE's commands, on the gpve of this machine. */
export function pveCommand(name: string): (args: readonly string[]) => Promise<number> {
  return (args) => runPveCommand(name, args, nodeIo({ localDataDir: defaultDataDir() }));
}
