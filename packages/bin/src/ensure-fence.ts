// Keeps the fence process of a node running. It outlives us: one that runs already is left alone, unless it is of
// another version; then it is replaced at once, which leaves no gap that its deadline would notice.
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { FenceFiles } from "@gpve/agent/infrastructure/fence/fence-files.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { inheritedEnv } from "@gpve/kit/own-program-env.ts";
import type { ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { livingProcess, sendSignal } from "./long-lived-process.ts";
import { selfCommand } from "./self-command.ts";

const START_PATIENCE_MS = 5_000;

export function fenceProcess(data: DataDir): ProcessIdentity | undefined {
  return livingProcess(data.file("run", "fence.lock"));
}

export function fenceKeeper(data: DataDir, configFile: string, log: Logger): () => void {
  const files = new FenceFiles(data.file("run"));
  let startedAt = Number.NEGATIVE_INFINITY;
  return () => {
    const running = fenceProcess(data);
    const report = files.readReport();
    const isOld = report?.process.pid === running?.pid && report?.version !== PRODUCT_VERSION;
    if (running !== undefined && !isOld) return;
    if (performance.now() - startedAt < START_PATIENCE_MS) return;
    startedAt = performance.now();
    if (running !== undefined) sendSignal(running.pid, "SIGKILL");
    const [file = "", ...self] = selfCommand();
    const args = [...self, "fence", "--config", configFile, "--data", data.path];
    const env = inheritedEnv(process.env);
    const pid = spawnDetached(file, args, { logFile: data.file("log", "fence.log"), cwd: "/", env });
    log.info({ pid }, "the fence process of this node was started");
  };
}
