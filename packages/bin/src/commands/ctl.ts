import { nodeIo } from "@gpve/cli/node-io.ts";
import { runCli } from "@gpve/cli/run-cli.ts";
import { defaultDataDir } from "./options.ts";

/** gpvectl; on the machine of a server it needs no login, only the data directory. */
export function ctl(args: readonly string[]): Promise<number> {
  return runCli(args, nodeIo({ localDataDir: defaultDataDir() }));
}
