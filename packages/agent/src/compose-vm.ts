// Wires virtual machines into an agent: processes, storages, operations, methods.
import { createHash, randomBytes } from "node:crypto";
import type { GuestRuntime, NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { cpuModelCollection } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { parseVzdumpConf } from "@gpve/domain/backup/vzdump-defaults.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { spawnHolding } from "@gpve/kit/spawn.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { storedChains } from "./application/qemu/chain/backup-chains.ts";
import { vmBackup } from "./application/qemu/backup/backup-vm.ts";
import { backupOperation } from "./application/guest/backup/backup-operation.ts";
import { archivedConfigText } from "./application/qemu/chain/open-backup.ts";
import { restoreVmOperation } from "./application/qemu/restore/restore-vm.ts";
import { allGuestsOperations } from "./application/guest/all-guests.ts";
import { orderedVms } from "./application/qemu/ordered-vms.ts";
import { bootedSince } from "./infrastructure/vm/boot-marker.ts";
import { createAllVmsHandlers } from "./presentation/pve/guest/all-vms-handlers.ts";
import { background } from "@gpve/kit/background.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import type { HostMemory } from "@gpve/domain/vm/host/host-memory.ts";
import { PciReservations } from "./application/qemu/start/pci-reservations.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { vmStarter } from "./application/qemu/start/start-vm.ts";
import { NodeMappings } from "./application/devices/node-mappings.ts";
import { hostFileFacts } from "./infrastructure/vm/file-facts.ts";
import { hostScripts } from "./infrastructure/vm/run-script.ts";
import { randomIds } from "./infrastructure/vm/random-ids.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { VmConfigs } from "./application/qemu/config/vm-configs.ts";
import type { OwnCallRoute } from "@gpve/contracts/agent/agent-routes.ts";
import type { OwnHandlers } from "./application/agent.ts";
import { Consoles } from "./application/qemu/console/consoles.ts";
import type { GuestStorages } from "./application/guest/guest-storages.ts";
import { NodeShells } from "./application/node-shells.ts";
import { ConsoleSessions } from "./application/guest/console-sessions.ts";
import { SpiceConsoles } from "./application/qemu/console/spice-consoles.ts";
import { vmViewRoutes } from "./application/qemu/console/vm-views.ts";
import { registerVmOperations } from "./application/qemu/vm-operations.ts";
import { CloudinitVolumes } from "./infrastructure/cloudinit/cloudinit-volume.ts";
import { requireSnippet } from "./application/guest/snippet-volume.ts";
import { readSnippet } from "./infrastructure/cloudinit/snippets.ts";
import { GuestAgents } from "./infrastructure/guest-agent/guest-agents.ts";
import { VmBridges } from "./infrastructure/net/vm-bridges.ts";
import { hostBackupTools } from "./infrastructure/backup/host-backup-tools.ts";
import { hasUserNamespaces } from "./infrastructure/guest-process/confinement.ts";
import { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import type { PathGuard } from "./infrastructure/host/path-guard.ts";
import { openTerminal } from "./infrastructure/host/terminal-process.ts";
import { ResolvConf } from "./infrastructure/host/resolv-conf.ts";
import { connectConsole } from "./infrastructure/vm/console-socket.ts";
import { KeptQemuFacts } from "./infrastructure/qemu/kept-qemu-facts.ts";
import { takeGuestFile } from "./infrastructure/vm/guest-written-file.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { UnixRamStreams } from "./infrastructure/vm/ram-streams.ts";
import { listPciDevices } from "./infrastructure/host/pci-devices.ts";
import { listUsbDevices, pathKind } from "./infrastructure/host/usb-devices.ts";
import { findSupervisor, type SupervisorParts } from "./compose-supervisor.ts";
import { adoptGuests } from "./application/guest/adopt-guests.ts";
import { watchEnds } from "./application/guest/guest-end.ts";
import { afterProcessEnd, afterVmEnd } from "./application/qemu/power/after-end.ts";
import { adoptFilters } from "./application/qemu/start/adopt-filters.ts";
import { keepFilters } from "./infrastructure/net/keep-filters.ts";
import { composeGuestWatch } from "./compose-guest-watch.ts";
import { consoleTunnels, createConsoleExtensions } from "./presentation/pve/guest/console-extensions.ts";
import { createVmAgentHandlers } from "./presentation/pve/vm/vm-agent-handlers.ts";
import { createBackupExtensions } from "./presentation/pve/backup/backup-extensions.ts";
import { diskFormats } from "./infrastructure/file-restore/disk-formats.ts";
import { FileSpool } from "./infrastructure/file-restore/file-spool.ts";
import { packFiles } from "./infrastructure/file-restore/pack-files.ts";
import { createFileRestoreHandlers } from "./presentation/pve/backup/file-restore-handlers.ts";
import { createBackupHandlers } from "./presentation/pve/backup/backup-handlers.ts";
import { createVmExtensions } from "./presentation/pve/vm/vm-create.ts";
import { createVmHandlers } from "./presentation/pve/vm/vm-handlers.ts";
import { createVmCloudinitHandlers } from "./presentation/pve/vm/vm-cloudinit-handlers.ts";
import { createVmMonitorHandlers } from "./presentation/pve/vm/vm-monitor-handlers.ts";

export interface VmParts {
  readonly data: DataDir;
  readonly guard: PathGuard;
  readonly node: string;
  readonly records: () => Records;
  readonly facts: () => NodeFacts;
  /** Resolves when it is known whether guests run under KVM. */
  readonly guestsTried: () => Promise<void>;
  readonly storages: GuestStorages & { imageStorages(): readonly string[] };
  readonly engine: OperationEngine;
  /** undefined = this node is in no cluster. */
  readonly clusterName: () => string | undefined;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly log: Logger;
  readonly clock: Clock;
  readonly qemuBinary: string;
  readonly devices: HostDevices;
  readonly memory: HostMemory;
  /** Bytes that the host has and uses. */
  readonly memoryUse: () => Promise<{ readonly total: number; readonly used: number }>;
  readonly supervisor: SupervisorParts["supervisor"];
  /** Told how long each look at all running guests took. */
  readonly observeMonitoring: (seconds: number) => void;
}

type VmRoute = Extract<
  OwnCallRoute,
  `${string}/vms/${string}` | `${string}/virtual-machines${string}` | `${string}/shells`
>;

export interface ComposedVms {
  readonly handlers: PveHandlers;
  /** What servers call besides PVE's methods. */
  readonly extensions: OwnHandlers<VmRoute>;
  readonly tunnels: ReturnType<typeof consoleTunnels>;
  /** Addresses of a PCI mapping on this node; undefined = no such mapping. */
  readonly mappedPci: (id: string) => readonly string[] | undefined;
  /** Who runs now, and what it uses. */
  readonly rows: () => readonly GuestRuntime[];
  /** Which of them run, as a text that changes with them. */
  readonly running: () => string;
  /** Finds what runs already; before operations recover. */
  adopt(): Promise<void>;
  /** Asks, keeps and prunes figures until the signal fires. */
  keepStatistics(signal: AbortSignal): Promise<void>;
  /** Called when a guest has ended, by whatever cause. */
  onGuestEnd(listener: () => void): void;
  /** Once per boot of the machine, when operations run. */
  startAfterBoot(): Promise<void>;
  close(): void;
}

export async function composeVms(parts: VmParts): Promise<ComposedVms> {
  const { data, node, records, clock, log } = parts;
  const supervisor = await findSupervisor(parts);
  const processes = new SupervisedQemus({
    dataFolder: data.path,
    instanceId: data.instanceId,
    supervisor: supervisor.path,
    log,
    clock,
    userNamespaces: process.getuid?.() !== 0 && (await hasUserNamespaces(parts.exec)),
  });
  const configs = new VmConfigs({ node, records, sha1Hex: (text) => hash("sha1", text) });
  const agents = new GuestAgents({ clock });
  const network = new VmBridges({ instanceId: data.instanceId, exec: parts.exec });
  const imageStorages = (): readonly string[] => parts.storages.imageStorages();
  const mappings = new NodeMappings({
    node,
    records,
    host: { pciDevices: () => listPciDevices(), usbDevices: () => listUsbDevices(), kindOf: pathKind },
    requireDirectory: (subject, path) => parts.guard.requireDirectory(subject, path),
  });
  const hostFacts = new KeptQemuFacts({
    node,
    files: hostFiles,
    exec: parts.exec,
    clock,
    log,
    folder: data.file("agent"),
    qemuBinary: parts.qemuBinary,
    kvmUsable: () => parts.facts().accelerator === "kvm",
    cluster: () => {
      const { pciMappings, usbMappings, directories } = mappings.here();
      const directoryMappings = new Set(directories.keys());
      const models = records().collection(cpuModelCollection).list();
      const customCpuModels = Object.fromEntries(models.map(({ id, value }) => [id, value]));
      return { pciMappings, usbMappings, directoryMappings, customCpuModels };
    },
  });
  const ports = {
    configs,
    chains: storedChains({ node, records }),
    processes,
    storages: parts.storages,
    network,
    cloudinit: new CloudinitVolumes({
      tools: parts.imageTools,
      dns: new ResolvConf(),
      snippet: (volid) => readSnippet((named) => requireSnippet(parts, named), volid),
    }),
    ram: new UnixRamStreams(data.file("run", "ram")),
    qemu: {
      binary: parts.qemuBinary,
      facts: () => hostFacts.facts(),
      known: () => hostFacts.fresh(),
      mayStart: async () => {
        await supervisor.missing;
        await Promise.all([parts.guestsTried(), hostFacts.fresh()]);
      },
    },
    devices: parts.devices,
    memory: parts.memory,
    pci: new PciReservations(processes),
    mappings,
    agents,
    clock,
    files: hostFileFacts,
    scripts: hostScripts(parts.exec),
    ids: randomIds(() => configs.datacenterOption("mac_prefix")),
  };
  const host = { ...ports, starter: vmStarter(ports) };
  registerVmOperations(parts.engine, host);
  for (const operation of allGuestsOperations([orderedVms(host)], parts.engine))
    parts.engine.register(operation);
  const sessions = new ConsoleSessions({ clock, engine: parts.engine });
  const shells = new NodeShells({
    node,
    sessions,
    engine: parts.engine,
    openTerminal: (argv) => openTerminal(supervisor.path, argv),
    isRoot: process.getuid?.() === 0,
  });
  const consoles = new Consoles({
    host,
    engine: parts.engine,
    sessions,
    connect: connectConsole,
    newPassword: () => randomBytes(6).toString("base64url"),
  });
  const spice = new SpiceConsoles({
    host,
    connect: connectConsole,
    newPassword: () => randomBytes(20).toString("hex"),
  });
  const consoleParts = { node, sessions, consoles, spice, shells };
  const watch = composeGuestWatch({
    configs,
    processes,
    network,
    clock,
    records,
    folder: data.file("agent"),
    log,
    memoryUse: parts.memoryUse,
    observe: parts.observeMonitoring,
  });
  const tools = hostBackupTools({
    exec: parts.exec,
    tools: parts.imageTools,
    clock,
    socketFolder: data.file("run"),
    hold: (connection) => spawnHolding(supervisor.path, ["hold"], connection),
  });
  const spool = new FileSpool({ folder: data.file("agent", "file-restore"), clock });
  await spool.clear();
  parts.engine.register(
    backupOperation({ ...host, backupOf: () => vmBackup(host, tools) }, tools, (vmid, work) =>
      parts.engine.withResource(`vm/${vmid}`, {}, work),
    ),
  );
  parts.engine.register(restoreVmOperation(host, tools));
  watchEnds({ processes, log, type: "qemu", work: afterVmEnd(host), ofEach: afterProcessEnd(host) });
  const vzdumpPorts = {
    configs: host.configs,
    storages: host.storages,
    clock: host.clock,
    clusterName: parts.clusterName,
  };
  return {
    handlers: {
      ...createVmAgentHandlers(host),
      ...createVmMonitorHandlers(host),
      ...createVmCloudinitHandlers({
        host,
        engine: parts.engine,
        dns: new ResolvConf(),
        sha1: (text) => hash("sha1", text),
      }),
      ...createFileRestoreHandlers({ host, tools, spool, formats: diskFormats, pack: packFiles }),
      ...createBackupHandlers({
        host: vzdumpPorts,
        tools,
        engine: parts.engine,
        poolMembers: (pool) => records().collection(poolsDef).get(pool)?.value.vms,
        settings: () => {
          const { settings, problems } = parseVzdumpConf(readTextFile(data.file("vzdump.conf")) ?? "");
          for (const problem of problems) log.warn({ file: data.file("vzdump.conf") }, problem);
          return settings;
        },
      }),
      ...createAllVmsHandlers({
        engine: parts.engine,
        statistics: (vmid, timeframe, cf) => {
          configs.get(vmid);
          return watch.history(vmid, timeframe, cf);
        },
      }),
      ...createVmHandlers({
        host,
        engine: parts.engine,
        sampled: (vmid) => watch.sampled(vmid),
        imageStorages,
        archivedConfig: (archive) => archivedConfigText(host, tools, archive),
      }),
    },
    extensions: {
      ...createConsoleExtensions(consoleParts),
      ...vmViewRoutes({
        host,
        takeFile: takeGuestFile,
        lastWords: (vmid) => processes.lastWords(String(vmid)),
      }),
      ...createBackupExtensions({ host: vzdumpPorts, engine: parts.engine }),
      ...createVmExtensions({ host, engine: parts.engine, imageStorages }),
    },
    tunnels: consoleTunnels(consoleParts),
    mappedPci: (id) => mappings.pciPaths(id),
    rows: () => watch.rows(),
    running: () => watch.running(),
    onGuestEnd: (listener) => void processes.onExit(listener),
    async adopt() {
      await hostFacts.fresh().catch((err: unknown) => {
        log.error({ err: messageOf(err) }, "this host cannot be looked at");
      });
      await adoptFilters({ network, configs, log }, await adoptGuests({ processes, log }));
    },
    keepStatistics: async (signal) => {
      await Promise.all([watch.run(signal), keepFilters(network, { clock, log }, signal)]);
    },
    async startAfterBoot() {
      if (!bootedSince(data.file("agent", "boot-id"), parts.facts().bootId)) return;
      log.info({}, "the machine was booted: starting the guests that start with it");
      await parts.engine.submit({
        type: "startall",
        resources: [`node/${node}/all`],
        args: {},
        actor: "root@pam",
      });
    },
    close: () => {
      background(log, "removing unpacked backups", spool.close());
      watch.close();
      sessions.close();
      spice.close();
      agents.close();
      // Guests run on without us; where there are none, nothing of this instance stays in the kernel.
      if (processes.list().length === 0) processes.sweep();
      processes.close();
    },
  };
}

function hash(algorithm: string, text: string): string {
  return createHash(algorithm).update(text).digest("hex");
}
