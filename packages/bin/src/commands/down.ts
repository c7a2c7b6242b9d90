// `gpve down`: server and agent stop, guests and virtual clusters run on; with --guests they are shut down too.
import { stopClusters } from "@gpve/agent/stop-clusters.ts";
import { type StoppedGuests, stopGuests } from "@gpve/agent/stop-guests.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { type DataDir, isDataDir, openDataDir } from "@gpve/kit/data-dir.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import { isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { stopAgent } from "../cluster/kept-agent.ts";
import { readMember } from "../cluster/member-files.ts";
import { etcdPlaces } from "../etcd/etcd-places.ts";
import { runningEtcd, stopEtcd } from "../etcd/etcd-process.ts";
import type { Io } from "../io.ts";
import { readLab } from "../lab/lab-plan.ts";
import { shutDownLabGuests, stopLab } from "../lab/stop-lab.ts";
import { readRunState } from "../run-state.ts";
import { runningClusters, runningGuests } from "./running-guests.ts";
import { commandOptions, dataDirOption } from "./options.ts";

const STOP_TIMEOUT_MS = 20_000;
/** Agents, servers and etcd go one after the other. */
const LAB_STOP_TIMEOUT_MS = 45_000;
/** What a guest has to switch itself off, before it is stopped. */
const SHUTDOWN_TIMEOUT_MS = 60_000;

export async function down(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("down", args, { data: { type: "string" }, guests: { type: "boolean" } });
  const path = dataDirOption(options.data);
  // A typing error must neither make a directory nor read as if guests had been ended.
  if (!isDataDir(path)) {
    io.out(
      `gpve is not running on ${path}: nothing of it is there. Another directory is named with --data DIR`,
    );
    return 0;
  }
  const data = openDataDir(path);
  const state = readRunState(data);
  const withGuests = options.guests === true;
  const lab = readLab(data);
  if (lab !== undefined) {
    const ended = withGuests ? await shutDownLabGuests(lab) : undefined;
    // Whoever holds the address stops the nodes too; where it was killed, they are stopped all the same.
    if (state !== undefined) await stopProcess(state.process, data, LAB_STOP_TIMEOUT_MS);
    await stopLab(lab, ended, io);
    return 0;
  }
  const places = etcdPlaces(data);
  if (state === undefined && !withGuests && runningEtcd(places) === undefined) {
    io.out(`gpve is not running on ${data.path}`);
    return 0;
  }
  let guests = 0;
  let clusters: readonly string[] = [];
  if (state !== undefined) {
    if (!withGuests) guests = await runningGuests(data);
    if (!withGuests) clusters = await runningClusters(data);
    await stopProcess(state.process, data);
  }
  // Where `up` was killed, the agent beside it runs on.
  if (readMember(data) !== undefined) await stopAgent(data);
  if (await stopEtcd(places)) io.out("the member of etcd that this server ran has stopped");
  if (withGuests) {
    for (const line of await endGuests(data)) io.out(line);
    return 0;
  }
  io.out(
    `gpve stopped: server and agent are down, ${guests === 0 ? "no guests were running" : `${counted(guests)} ${guests === 1 ? "runs" : "run"} on`}`,
  );
  if (clusters.length > 0)
    io.out(
      `virtual clusters run on: ${clusters.join(", ")}; gpvectl vc stop ends one while gpve is up, gpve down --guests ends all`,
    );
  return 0;
}

export async function stopProcess(
  running: ProcessIdentity,
  data: DataDir,
  timeoutMs = STOP_TIMEOUT_MS,
): Promise<void> {
  process.kill(running.pid, "SIGTERM");
  const end = performance.now() + timeoutMs;
  while (isAlive(running)) {
    if (performance.now() > end) {
      throw new AppError(
        "request.timeout",
        `process ${running.pid} did not stop within ${timeoutMs / 1000} s; see ${data.file("log", "gpve.log")}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function endGuests(data: DataDir): Promise<readonly string[]> {
  const log = createLogger({ component: "down", output: data.file("log", "gpve.log") });
  try {
    const [guests, clusters] = await Promise.all([
      stopGuests(data, { log, timeoutMs: SHUTDOWN_TIMEOUT_MS }),
      stopClusters(data, { log }),
    ]);
    const unreachable = [...guests.unreachable, ...clusters.unreachable];
    if (unreachable.length > 0) {
      throw new AppError(
        "operation.failed",
        `these run on, because their monitors do not answer: ${unreachable.join(", ")}`,
      );
    }
    return [
      `gpve stopped: server and agent are down, ${endOf(guests)}`,
      ...(clusters.ended.length === 0
        ? []
        : [`virtual clusters have ended, until the next up: ${clusters.ended.join(", ")}`]),
    ];
  } finally {
    log.close();
  }
}

function endOf({ shutDown, stopped }: StoppedGuests): string {
  if (shutDown + stopped === 0) return "no guests were running";
  return `${counted(shutDown)} ${shutDown === 1 ? "has" : "have"} shut down, ${stopped} ${stopped === 1 ? "was" : "were"} stopped`;
}

function counted(guests: number): string {
  return guests === 1 ? "1 guest" : `${guests} guests`;
}
