// The agent beside a server of `gpve up`: a process of its own, which servers of other machines reach, started again when
// it ends. One that outlived us is taken over.
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { inheritedEnv } from "@gpve/kit/own-program-env.ts";
import type { ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { every } from "@gpve/kit/every.ts";
import { endProcess, livingProcess } from "../long-lived-process.ts";
import { selfCommand } from "../self-command.ts";
import { agentFile } from "./member-files.ts";

const LOOK_EVERY_MS = 500;
/** To take its lock; then it counts as running. */
const START_PATIENCE_MS = 15_000;
const STOP_PATIENCE_MS = 15_000;

export function runningAgent(data: DataDir): ProcessIdentity | undefined {
  return livingProcess(data.file("run", "agent.lock"));
}

export async function keepAgent(data: DataDir, clock: Clock, signal: AbortSignal): Promise<void> {
  let startedAt = Number.NEGATIVE_INFINITY;
  await every(LOOK_EVERY_MS, { clock, signal }, async () => {
    if (runningAgent(data) === undefined && clock.monotonic() - startedAt > START_PATIENCE_MS) {
      startedAt = clock.monotonic();
      const [file = "", ...self] = selfCommand();
      const args = [...self, "agent", "--config", agentFile(data), "--data", data.path];
      const env = inheritedEnv(process.env);
      spawnDetached(file, args, { logFile: data.file("log", "agent.log"), cwd: "/", env });
    }
  });
}

export async function stopAgent(data: DataDir): Promise<void> {
  const running = runningAgent(data);
  if (running !== undefined) await endProcess(running, STOP_PATIENCE_MS);
}
