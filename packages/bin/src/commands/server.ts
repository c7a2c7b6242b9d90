// `gpve server --config FILE`: a server alone, for clusters.
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { parseServerConfiguration } from "@gpve/kit/config/configuration.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { readConfigFile } from "../config-file.ts";
import type { Io } from "../io.ts";
import { machineName } from "../machine-names.ts";
import { clearRunState, writeRunState } from "../run-state.ts";
import { serverSettings } from "../settings/server-settings.ts";
import { showDataDir } from "../show-data-dir.ts";
import { startServer } from "../start-server.ts";
import { untilSignalled } from "../until-signalled.ts";
import { commandOptions } from "./options.ts";

export async function server(args: readonly string[], io: Io): Promise<number> {
  if (args[0] === "join") return (await import("./server-join.ts")).serverJoin(args.slice(1), io);
  const options = commandOptions("server", args, {
    config: { type: "string" },
    data: { type: "string" },
    node: { type: "string" },
  });
  const settings = serverSettings(readConfigFile("server", options.config, parseServerConfiguration));
  showDataDir("server", args, settings.dataDir);
  const data = openDataDir(options.data ?? settings.dataDir);
  const lock = acquireProcessLock(data.file("run", "lock"));
  try {
    const name = options.node ?? machineName();
    const started = await startServer(settings, data, name);
    const { url } = started;
    writeRunState(data, {
      url,
      node: name,
      startedAt: new Date().toISOString(),
      version: PRODUCT_VERSION,
    });
    io.out(`gpve-server ${PRODUCT_VERSION} is ready at ${url}`);
    const code = await untilSignalled(() => started.stop());
    clearRunState(data);
    return code;
  } finally {
    lock.release();
  }
}
