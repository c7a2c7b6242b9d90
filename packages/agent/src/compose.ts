// Wires one agent. The only file here that constructs adapters. Whether servers reach it in memory or over gRPC is the
// business of whoever composes the process.
import { given } from "@gpve/contracts/given.ts";
import { uploadTunnels } from "./presentation/pve/storage/upload-tunnel.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { joinDirectories } from "@gpve/domain/task/operation-tasks.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { span } from "@gpve/kit/telemetry/span.ts";
import { tracedExec } from "@gpve/kit/telemetry/traced-exec.ts";
import { withTraceparent } from "@gpve/kit/telemetry/traceparent.ts";
import { guestArrival } from "./application/guest/arrived-guest.ts";
import { createAgent, type Agent, type OwnHandlers, type Tunnels } from "./application/agent.ts";
import { probeNodeOperation, probeRoutes } from "./application/probe-node.ts";
import type { MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import { createReporter, type Reporter } from "./application/report/reporter.ts";
import type { AgentSettings } from "./agent-settings.ts";
import { declaredNode } from "./infrastructure/facts/declared-node.ts";
import { composeHost } from "./compose-host.ts";
import { ownImageTools } from "./infrastructure/image-tools/own-tools.ts";
import { composeComponents } from "./compose-components.ts";
import { composeVclusters } from "./compose-vclusters.ts";
import { noOtherNodes } from "./application/guest/move-ports.ts";
import { silentMs } from "./infrastructure/fence/fence-files.ts";
import { findSupervisor } from "./infrastructure/supervisor/find-supervisor.ts";
import { composeImages } from "./compose-images.ts";
import { createStorageChecks } from "./application/storage/check-storage.ts";
import { httpProxy } from "@gpve/domain/cluster/datacenter-options.ts";
import { PathGuard } from "./infrastructure/host/path-guard.ts";
import { ReplicaFiles } from "./infrastructure/replica/replica-files.ts";
import { composeStorage, type AgentStorage } from "./compose-storage.ts";
import { composeGuests } from "./compose-guests.ts";
import { FactsKeeper } from "./infrastructure/facts/facts-keeper.ts";
import { triedGuestsFile } from "./infrastructure/facts/tried-guests-file.ts";
import { keepFacts } from "./infrastructure/facts/keep-facts.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { ksmShared } from "./infrastructure/facts/ksm.ts";
import { UsageSampler } from "./infrastructure/facts/usage-sampler.ts";
import { stopBeforePower } from "./application/guest/stop-before-power.ts";
import { leavingPower } from "./application/ha/leaving-power.ts";
import { SystemdPower } from "./infrastructure/host/power.ts";
import { EtcHosts } from "./infrastructure/host/etc-hosts.ts";
import { ResolvConf } from "./infrastructure/host/resolv-conf.ts";
import { SystemReport } from "./infrastructure/host/system-report.ts";
import { HostTimezone } from "./infrastructure/host/timezone.ts";
import { openAgentOperations } from "./infrastructure/operation/agent-operations.ts";
import { drawGraph } from "./infrastructure/rrd/draw-graph.ts";
import { guestSources } from "./infrastructure/rrd/guest-statistics.ts";
import { keepNodeStatistics, nodeSources } from "./infrastructure/rrd/node-statistics.ts";
import { storageSources } from "./infrastructure/rrd/storage-statistics.ts";
import { RrdFile } from "./infrastructure/rrd/rrd-file.ts";
import { kataCapability } from "./infrastructure/vnode/find-kata.ts";
import { confinementCapability } from "./infrastructure/guest-process/confinement.ts";
import { DhcpLeases } from "./infrastructure/net/nat/dhcp-leases.ts";
import { guestLeaseFile } from "./infrastructure/net/nat/guest-network.ts";
import { keepGuestNetwork, makeGuestNetwork } from "./infrastructure/net/nat/make-guest-network.ts";
import { interfaceRows } from "./infrastructure/net/interface-rows.ts";
import { createMappingChecks } from "./application/devices/check-mappings.ts";
import { keepMappedDirectories } from "./application/devices/mapped-directories.ts";
import { deviceFacts } from "./infrastructure/vnode/devices/read-cdi.ts";
import { listMdevTypes } from "./infrastructure/host/mdev-types.ts";
import { LinuxHostMemory } from "./infrastructure/host/host-memory.ts";
import { listPciDevices } from "./infrastructure/host/pci-devices.ts";
import { SysfsDevices } from "./infrastructure/host/sysfs-devices.ts";
import { listUsbDevices, pathKind } from "./infrastructure/host/usb-devices.ts";
import { createGraphHandlers } from "./presentation/pve/node/graph-handlers.ts";
import { createHostHandlers } from "./presentation/pve/node/host-handlers.ts";
import { createNodeHandlers } from "./presentation/pve/node/node-handlers.ts";
import { createTaskHandlers } from "./presentation/pve/node/task-handlers.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import { requireValidCall } from "@gpve/domain/schema/validate-params.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface RunningAgent {
  readonly agent: Agent;
  readonly reporter: Reporter;
  readonly engine: OperationEngine;
  readonly storage: AgentStorage;
  /** Takes guests from other nodes. */
  readonly receiver: MoveReceiver;
  close(): Promise<void>;
}

const DEFAULT_QEMU = "/usr/bin/qemu-system-x86_64";

export async function startAgent(settings: AgentSettings): Promise<RunningAgent> {
  const { data, nodeName, log, metrics } = settings;
  const clock = settings.clock ?? systemClock;
  const runExec = tracedExec(exec);
  const stop = new AbortController();

  const facts = new FactsKeeper({
    files: hostFiles,
    exec: runExec,
    log,
    folder: data.file("agent"),
    triedFile: triedGuestsFile(data.file("agent")),
    confinement: () => confinementCapability(runExec),
    kata: () => kataCapability({ exec: runExec, files: hostFiles }),
    devices: () => deviceFacts(),
    ...given({ qemuBinary: settings.qemuBinary }),
  });
  await facts.load();
  const declared = await declaredNode(settings.declared ?? {}, { facts, exec: runExec, log });
  const known = () => facts.facts().facts;
  // Seconds where KVM does not work; the first start waits for it, nothing else does.
  background(log, "trying guests on this host", facts.guestsTried());
  const sampler = new UsageSampler({ files: hostFiles, clock });
  const archive = RrdFile.open(data.file("agent", "node.rrd"), nodeSources);

  const operations = openAgentOperations({
    file: data.file,
    node: nodeName,
    clock,
    logger: log,
    publisher: settings.publisher,
    ...given({ crash: settings.crash }),
    beforeEnd: () => reporter.told(),
  });
  const { engine, logs } = operations;
  engine.observe(metrics.countTasks);
  engine.register(probeNodeOperation({ refresh: (signal) => facts.refresh(signal), facts: known }));
  const proxy = (): string | undefined => httpProxy(settings.records());
  const guard = new PathGuard({
    node: nodeName,
    dataDir: data.path,
    storages: settings.storages,
    mapped: keepMappedDirectories(settings.records, nodeName),
  });
  const imageTools = ownImageTools({ data, exec: runExec, supervisor: settings.supervisor });
  const replicaNotes = new ReplicaFiles(data.file("agent", "replicas"));
  const storage = composeStorage({
    keeperOf: (volid) => replicaNotes.keeperOf(volid),
    imageTools,
    data,
    proxy,
    guard,
    node: nodeName,
    records: settings.records,
    definitions: settings.storages,
    storageSecret: settings.storageSecret,
    volumeContent: (vmid) => guestKinds[settings.guestType(vmid) ?? VM_TYPE].volumeContent,
    engine,
    clock,
    exec: runExec,
    log,
  });
  const images = composeImages({
    data,
    proxy,
    storages: storage.storages,
    engine,
    exec: runExec,
    imageTools,
  });
  const components = composeComponents({ data, proxy, engine, exec: runExec, imageTools, clock });
  metrics.watchQueue("agent", () => engine.counts().waiting + engine.counts().running);
  const tasks =
    settings.serverTasks === undefined
      ? operations.tasks
      : joinDirectories([operations.tasks, settings.serverTasks]);

  const leases = new DhcpLeases([guestLeaseFile(data), ...(settings.leaseFiles ?? [])], clock);
  const guests = await composeGuests({
    defaults: declared.defaults,
    leasedAddress: (mac) => leases.addressOf(mac),
    imageTools,
    data,
    guard,
    node: nodeName,
    records: settings.records,
    backups: storage.backups,
    clusterName: settings.clusterName,
    facts: known,
    guestsTried: () => facts.guestsTried(),
    storages: {
      plugin: (id) => storage.storages.find(id).plugin,
      definition: (id) => storage.storages.find(id).definition,
      imageStorages: () => storage.storages.enabledFor("images"),
    },
    engine,
    exec: runExec,
    log,
    clock,
    qemuBinary: settings.qemuBinary ?? DEFAULT_QEMU,
    devices: new SysfsDevices({ exec: runExec }),
    memory: new LinuxHostMemory({ exec: runExec }),
    memoryUse: async () => (await sampler.sample()).memory,
    supervisor: settings.supervisor,
    guestType: settings.guestType,
    moves: settings.moves,
    replicaNotes,
    uidSeed: settings.uidSeed,
    fence: settings.fence,
    observeMonitoring: (seconds) => metrics.observeMonitoring(seconds),
  });
  const vclusters = composeVclusters({
    data,
    node: nodeName,
    exec: runExec,
    clock,
    log,
    engine,
    components,
    supervisor: (await findSupervisor({ supervisor: settings.supervisor, data, exec: runExec, log })).path,
    self: settings.self,
    front: settings.front,
    storages: storage.storages,
    backups: storage.backups,
    moves: {
      peers: (settings.moves ?? noOtherNodes(nodeName)).peers,
      findMove: (moveId) => guests.receiver.find(0, moveId),
    },
    records: settings.records,
    silentMs: () => silentMs(data.file("run")),
    machines: { qemu: settings.qemuBinary ?? DEFAULT_QEMU, accelerator: () => known().accelerator },
    guestsTried: () => facts.guestsTried(),
    changed: () => reporter.hurry(),
  });
  const nodeHandlers = createNodeHandlers({
    clock,
    facts: known,
    usage: () => sampler.sample(),
    ksmShared: () => ksmShared(hostFiles),
    statistics: archive,
    dns: new ResolvConf(),
    hosts: new EtcHosts(),
    time: new HostTimezone(),
    power: leavingPower({
      power: new SystemdPower({ exec: runExec }),
      ha: guests.ha,
      stopAll: () => stopBeforePower(engine, nodeName),
      log,
    }),
    report: new SystemReport({ exec: runExec, node: nodeName, version: PRODUCT_VERSION, facts: known }),
  });
  const agent = createAgent({
    node: nodeName,
    handlers: [
      createTaskHandlers({ tasks, logs }),
      storage.handlers,
      guests.handlers,
      createHostHandlers({
        interfaces: () => interfaceRows(runExec),
        pciDevices: () => listPciDevices(),
        usbDevices: () => listUsbDevices(),
        mdevTypes: (device) => listMdevTypes(device),
        mappedPci: guests.kinds.qemu.mappedPci,
      }),
      nodeHandlers,
      composeHost({
        data,
        node: nodeName,
        exec: runExec,
        kernel: () => known().kernel,
        guests: () => guests.rows(),
        withServer: settings.serverTasks !== undefined,
      }),
      createGraphHandlers({
        node: nodeName,
        draw: drawGraph,
        data: { ...nodeHandlers, ...storage.handlers, ...guests.handlers },
        sources: {
          vm: guestSources.map(({ name }) => name),
          node: nodeSources.map(({ name }) => name),
          storage: storageSources.map(({ name }) => name),
        },
      }),
    ],
    tunnels: { ...uploadTunnels(storage.uploads), ...guests.kinds.qemu.tunnels } satisfies Tunnels,
    extensions: {
      ...images,
      ...components.routes,
      ...vclusters.routes,
      ...guests.kinds.qemu.extensions,
      ...createStorageChecks(storage.storages),
      ...createMappingChecks(
        nodeName,
        { pciDevices: () => listPciDevices(), usbDevices: () => listUsbDevices(), kindOf: pathKind },
        (path) => guard.requireDirectory("a directory mapping", path),
      ),
      ...probeRoutes(nodeName, engine),
    } satisfies OwnHandlers,
    validate: requireValidCall,
    accessOf: settings.accessOf,
    logFor: (call) => log.child({ requestId: call.requestId }),
    arrival: guestArrival({ node: nodeName, records: settings.records, clock }),
  });
  const reporter = createReporter({
    node: nodeName,
    agentVersion: PRODUCT_VERSION,
    clock,
    usage: () => sampler.sample(),
    facts: declared.facts,
    storages: () => storage.storages.reported(),
    guests: () => guests.rows(),
    ends: () => guests.ends(),
    vclusters: () => vclusters.rows(),
    standbys: () => vclusters.standbys.rows(),
    ...given({ reserve: settings.reserve }),
    ...declared.report,
    defaults: declared.defaults,
    running: () => guests.running(),
  });
  engine.observe(({ kind }) => {
    if (kind === "ended") reporter.hurry();
  });
  // Whoever ends a guest waits until all know that it does not run any more.
  guests.onGuestEnd(() => background(log, "telling of a guest's end", reporter.told()));
  const network =
    settings.makeNetwork === true ? await makeGuestNetwork(data, { exec: runExec, clock, log }) : undefined;
  await guests.adopt();
  await vclusters.adopt();
  await operations.start();
  await vclusters.resume();
  await guests.startAfterBoot();
  await storage.start();

  guests.ha?.start(stop.signal);
  const statistics = keepNodeStatistics(
    {
      archive,
      usage: () => sampler.sample(),
      cpus: () => known().cpu.cpus,
      files: hostFiles,
      clock,
      onError: (err) => log.error({ err: String(err) }, "node statistics failed"),
    },
    stop.signal,
  );
  background(log, "node statistics", statistics);
  const lookedAfter = guests.lookAfter(stop.signal);
  background(log, "looking after guests", lookedAfter);
  const networkKept =
    network === undefined ? Promise.resolve() : keepGuestNetwork(network, { clock, log }, stop.signal);
  background(log, "the guests' network", networkKept);
  background(log, "looking at this host", keepFacts({ facts, clock, log }, stop.signal));
  return {
    agent: traced(agent),
    receiver: {
      ...guests.receiver,
      clusters: vclusters.arrivals,
      standbys: vclusters.standbys.keeper,
      volumes: vclusters.volumes,
    },
    reporter,
    engine,
    storage,
    async close() {
      stop.abort(new AppError("operation.cancelled", "the agent stops"));
      await statistics;
      await lookedAfter;
      await networkKept;
      await operations.stop();
      storage.close();
      guests.close();
      vclusters.close();
      archive.close();
    },
  };
}

/** Spans of a call hang below the span of whoever made it, in this process or another. */
function traced(agent: Agent): Agent {
  return {
    ...agent,
    call: (call, signal) =>
      withTraceparent(call.traceparent, () =>
        span(
          `agent ${call.decision.route}`,
          { "gpve.node": agent.node },
          () => agent.call(call, signal),
          "server",
        ),
      ),
  };
}
