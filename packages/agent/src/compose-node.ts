// Everything a node does, whoever asks: the same in one process with a server and alone behind gRPC.
import { join } from "node:path";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { GuestRuntime, StorageRuntime } from "@gpve/domain/node/runtime.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { TaskPublisher } from "@gpve/domain/task/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { createAgent, type Agent } from "./application/agent.ts";
import { createReporter, type Reporter } from "./application/report/reporter.ts";
import { FactsKeeper } from "./infrastructure/facts/facts-keeper.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { UsageSampler } from "./infrastructure/facts/usage-sampler.ts";
import { SystemdPower } from "./infrastructure/host/power.ts";
import { ResolvConf } from "./infrastructure/host/resolv-conf.ts";
import { SystemReport } from "./infrastructure/host/system-report.ts";
import { HostTimezone } from "./infrastructure/host/timezone.ts";
import { openAgentOperations, type AgentOperations } from "./infrastructure/operation/agent-operations.ts";
import { keepNodeStatistics, nodeSources } from "./infrastructure/rrd/node-statistics.ts";
import { RrdFile } from "./infrastructure/rrd/rrd-file.ts";
import { createNodeHandlers } from "./presentation/pve/node-handlers.ts";
import { createTaskHandlers } from "./presentation/pve/task-handlers.ts";

const REFRESH_FACTS_MS = 5 * 60_000;

export interface NodeOptions {
  readonly node: string;
  readonly data: DataDir;
  readonly clock: Clock;
  readonly exec: Exec;
  readonly log: Logger;
  readonly publisher: TaskPublisher;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  readonly qemuBinary?: string;
  /** Methods of further areas (guests, storage). They may use the operations. */
  readonly areas?: (operations: AgentOperations) => readonly PveHandlers[];
  readonly guests?: () => readonly GuestRuntime[];
  readonly storages?: () => readonly StorageRuntime[];
}

export interface ComposedNode {
  readonly agent: Agent;
  readonly reporter: Reporter;
  readonly operations: AgentOperations;
  readonly facts: FactsKeeper;
  /** Starts operations, statistics and the probing of the host. Quick: slow probes run in the background. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export async function composeNode(options: NodeOptions): Promise<ComposedNode> {
  const { node, data, clock, exec, log } = options;
  const stop = new AbortController();
  const facts = new FactsKeeper({
    files: hostFiles,
    exec,
    log,
    folder: data.file("agent"),
    ...(options.qemuBinary === undefined ? {} : { qemuBinary: options.qemuBinary }),
  });
  await facts.load();
  const sampler = new UsageSampler({ files: hostFiles, clock });
  const statistics = RrdFile.open(join(data.file("agent"), "node.rrd"), nodeSources);
  const operations = openAgentOperations({
    file: data.file,
    node,
    clock,
    logger: log,
    publisher: options.publisher,
  });
  const nodeHandlers = createNodeHandlers({
    clock,
    facts: () => facts.facts().facts,
    usage: () => sampler.sample(),
    ksmShared: async () => Number((await hostFiles.read("/sys/kernel/mm/ksm/pages_sharing")) ?? 0) * 4_096,
    statistics,
    dns: new ResolvConf(),
    time: new HostTimezone(),
    power: new SystemdPower({ exec }),
    report: new SystemReport({ exec, node, version: PRODUCT_VERSION, facts: () => facts.facts().facts }),
  });
  const taskHandlers = createTaskHandlers({ tasks: operations.tasks, logs: operations.logs });
  const agent = createAgent({
    node,
    handlers: [nodeHandlers, taskHandlers, ...(options.areas?.(operations) ?? [])],
    validate: (route, params, source) => {
      const method = methodByKey(route);
      if (method === undefined)
        throw new AppError("feature.unsupported", `no such method ${route}`, { pveStatus: 501 });
      return requireValidParams(method, params, { source });
    },
    accessOf: options.accessOf,
    logFor: (call) => log.child({ requestId: call.requestId, route: call.route }),
  });
  const reporter = createReporter({
    node,
    agentVersion: PRODUCT_VERSION,
    clock,
    usage: () => sampler.sample(),
    facts: () => facts.facts(),
    ...(options.guests === undefined ? {} : { guests: options.guests }),
    ...(options.storages === undefined ? {} : { storages: options.storages }),
  });
  let loops: Promise<unknown> = Promise.resolve();
  return {
    agent,
    reporter,
    operations,
    facts,
    async start() {
      await operations.start();
      const sampling = keepNodeStatistics(
        {
          archive: statistics,
          usage: () => sampler.sample(),
          cpus: () => facts.facts().facts.cpu.cpus,
          files: hostFiles,
          clock,
          onError: (err) => log.warn({ err: messageOf(err) }, "a sample of the node's statistics failed"),
        },
        stop.signal,
      );
      const probing = refreshFacts(facts, clock, log, stop.signal);
      loops = Promise.all([sampling, probing]);
      background(log, "watching the node", loops);
    },
    async close() {
      stop.abort(new AppError("operation.cancelled", "the agent stops"));
      await operations.stop();
      await loops;
      statistics.close();
    },
  };
}

async function refreshFacts(
  facts: FactsKeeper,
  clock: Clock,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await facts.refresh(signal);
    } catch (err) {
      log.warn({ err: messageOf(err) }, "the node's facts could not be refreshed");
    }
    await clock.sleep(REFRESH_FACTS_MS, signal).catch(() => undefined);
  }
}
