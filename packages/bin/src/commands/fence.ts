// `gpve fence --config FILE --data DIR`: keeps the node's lease on guests under HA. The agent starts it.
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { startFence } from "@gpve/agent/compose-fence.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { parseAgentConfiguration } from "@gpve/kit/config/configuration.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { readConfigFile } from "../config-file.ts";
import type { Io } from "../io.ts";
import { knownServers } from "../known-servers.ts";
import { supervisorSource } from "../supervisor-source.ts";
import { agentSettings } from "../settings/agent-settings.ts";
import { untilSignalled } from "../until-signalled.ts";
import { commandOptions } from "./options.ts";

export async function fence(args: readonly string[], _io: Io): Promise<number> {
  const options = commandOptions("fence", args, { config: { type: "string" }, data: { type: "string" } });
  const settings = agentSettings(readConfigFile("agent", options.config, parseAgentConfiguration));
  const data = openDataDir(options.data ?? settings.dataDir);
  const lock = acquireProcessLock(data.file("run", "fence.lock"));
  const { level, format } = settings.observability;
  const output = data.file("log", "fence.jsonl");
  const log = createLogger({ component: "fence", output, ...given({ level, format }) });
  const source = supervisorSource(data);
  const supervisor =
    "binary" in source
      ? source.binary
      : await supervisorBinary({ ...source, cacheFolder: data.file("agent") }).catch((err: unknown) =>
          ignore(err, "told by the agent; without it there is no watchdog"),
        );
  try {
    const running = await startFence({
      data,
      node: settings.node.nodeName,
      servers: knownServers(data, settings.join.endpoints, log),
      log,
      watchdog: settings.fence.watchdog,
      supervisor: supervisor ?? undefined,
    });
    return await untilSignalled(() => running.stop());
  } finally {
    lock.release();
    log.close();
  }
}
