// Wires virtual machines into an agent: storages, operations, methods.
import { randomBytes } from "node:crypto";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { cpuModelCollection } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { storedChains } from "./application/qemu/chain/backup-chains.ts";
import { vmBackup } from "./application/qemu/backup/backup-vm.ts";
import { archivedConfigText } from "./application/qemu/chain/open-backup.ts";
import { restoreVmOperation } from "./application/qemu/restore/restore-vm.ts";
import { noOtherNodes } from "./application/guest/move-ports.ts";
import { orderedVms } from "./application/qemu/ordered-vms.ts";
import { background } from "@gpve/kit/background.ts";
import { PciReservations } from "./application/qemu/start/pci-reservations.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { vmStarter } from "./application/qemu/start/start-vm.ts";
import { NodeMappings } from "./application/devices/node-mappings.ts";
import { hostFileFacts } from "./infrastructure/vm/file-facts.ts";
import { hostScripts } from "./infrastructure/vm/run-script.ts";
import { randomIds } from "./infrastructure/vm/random-ids.ts";
import { VmConfigs } from "./application/qemu/config/vm-configs.ts";
import type { OwnCallRoute } from "@gpve/contracts/agent/agent-routes.ts";
import type { OwnHandlers } from "./application/agent.ts";
import { Consoles } from "./application/qemu/console/consoles.ts";
import { NodeShells } from "./application/node-shells.ts";
import { ConsoleSessions } from "./application/guest/console-sessions.ts";
import { SpiceConsoles } from "./application/qemu/console/spice-consoles.ts";
import { GuestLines } from "./application/qemu/line/guest-lines.ts";
import { vmViewRoutes } from "./application/qemu/console/vm-views.ts";
import { registerVmOperations } from "./application/qemu/vm-operations.ts";
import { CloudinitVolumes } from "./infrastructure/cloudinit/cloudinit-volume.ts";
import { requireSnippet } from "./application/guest/snippet-volume.ts";
import { readSnippet } from "./infrastructure/cloudinit/snippets.ts";
import { ChannelGuestAgents } from "./infrastructure/guest-agent/guest-agents.ts";
import { BridgeDialer } from "./infrastructure/net/line/guest-dialer.ts";
import { LinePins, linesTableName } from "./infrastructure/net/line/line-pins.ts";
import { openLine } from "./infrastructure/net/line/line-process.ts";
import { VmBridges } from "./infrastructure/net/vm-bridges.ts";
import { openTerminal } from "./infrastructure/host/terminal-process.ts";
import { ResolvConf } from "./infrastructure/host/resolv-conf.ts";
import { connectConsole } from "./infrastructure/vm/console-socket.ts";
import { KeptQemuFacts } from "./infrastructure/qemu/kept-qemu-facts.ts";
import { takeGuestFile } from "./infrastructure/vm/guest-written-file.ts";
import { UnixRamStreams } from "./infrastructure/vm/ram-streams.ts";
import { listPciDevices } from "./infrastructure/host/pci-devices.ts";
import { listUsbDevices, pathKind } from "./infrastructure/host/usb-devices.ts";
import { afterProcessEnd, afterVmEnd } from "./application/qemu/power/after-end.ts";
import { adoptFilters } from "./application/qemu/start/adopt-filters.ts";
import { keepFilters, keepPins } from "./infrastructure/net/filter/keep-filters.ts";
import { consoleTunnels, createConsoleExtensions } from "./application/qemu/console/console-routes.ts";
import { createVmAgentHandlers } from "./presentation/pve/vm/vm-agent-handlers.ts";
import { createBackupExtensions } from "./presentation/pve/backup/backup-extensions.ts";
import { diskFormats } from "./infrastructure/file-restore/disk-formats.ts";
import { FileSpool } from "./infrastructure/file-restore/file-spool.ts";
import { packFiles } from "./infrastructure/file-restore/pack-files.ts";
import { createFileRestoreHandlers } from "./presentation/pve/backup/file-restore-handlers.ts";
import { createVmExtensions } from "./presentation/pve/vm/vm-extensions.ts";
import { createVmStatisticsHandlers } from "./presentation/pve/vm/vm-statistics-handlers.ts";
import { balanceMemory } from "./application/qemu/figures/balance-memory.ts";
import { VmSampler } from "./application/qemu/figures/vm-sampler.ts";
import { runningVm } from "./application/qemu/running-vm.ts";
import { vmSnapshots } from "./application/qemu/snapshot/vm-snapshots.ts";
import { tapTraffic } from "./infrastructure/vm/tap-traffic.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { ComposedKind, KindParts } from "./compose-kind.ts";
import { createVmHandlers } from "./presentation/pve/vm/vm-handlers.ts";
import { createVmCloudinitHandlers } from "./presentation/pve/vm/vm-cloudinit-handlers.ts";
import { composeMigration } from "./compose-migration.ts";
import { composeReplication } from "./compose-replication.ts";
import { createVmMonitorHandlers } from "./presentation/pve/vm/vm-monitor-handlers.ts";

type VmRoute = Extract<
  OwnCallRoute,
  `${string}/vms/${string}` | `${string}/virtual-machines${string}` | `${string}/shells`
>;

export interface ComposedVms extends ComposedKind {
  readonly handlers: PveHandlers;
  /** What servers call besides PVE's methods. */
  readonly extensions: OwnHandlers<VmRoute>;
  readonly tunnels: ReturnType<typeof consoleTunnels> &
    ReturnType<GuestLines["tunnels"]> &
    ReturnType<typeof composeMigration>["tunnels"];
  /** Addresses of a PCI mapping on this node; undefined = no such mapping. */
  readonly mappedPci: (id: string) => readonly string[] | undefined;
}

export async function composeVms(parts: KindParts): Promise<ComposedVms> {
  const { data, node, records, clock, log, supervisor, processes, backupTools: tools } = parts;
  const configs = new VmConfigs({ node, records, sha1Hex: parts.sha1Hex, clock });
  const agents = new ChannelGuestAgents({ clock });
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
    moves: parts.moves ?? noOtherNodes(node),
    clock,
    files: hostFileFacts,
    scripts: hostScripts(parts.exec),
    ids: randomIds(() => configs.datacenterOption("mac_prefix")),
  };
  const host = { ...ports, starter: vmStarter(ports) };
  registerVmOperations(parts.engine, host);
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
  const pins = new LinePins({
    exec: parts.exec,
    table: linesTableName(data.instanceId),
    random: randomBytes,
  });
  const lines = new GuestLines({
    host,
    clock,
    dialer: new BridgeDialer({
      node,
      exec: parts.exec,
      log,
      clock,
      pins,
      open: (place, signal) => openLine([supervisor.path], place, signal),
      leasedAddress: parts.leasedAddress,
    }),
  });
  const sampler = new VmSampler({
    processes,
    configs,
    clock,
    traffic: (vmid, key) => tapTraffic(network.tapOf(vmid, key)),
    addressOf: parts.leasedAddress,
  });
  const balance = {
    process: (vmid: number) => runningVm(host, vmid),
    freeMemory: (vmid: number) => sampler.freeMemory(vmid),
    hostMemory: parts.memoryUse,
  };
  const spool = new FileSpool({ folder: data.file("agent", "file-restore"), clock });
  await spool.clear();
  parts.engine.register(restoreVmOperation(host, tools));
  const migration = composeMigration(parts, host);
  const replication = composeReplication(parts, host);
  const vzdumpPorts = {
    configs: host.configs,
    storages: host.storages,
    clock: host.clock,
    clusterName: parts.clusterName,
  };
  const archivedConfig = (archive: string) => archivedConfigText(host, tools, archive);
  return {
    type: VM_TYPE,
    ordered: orderedVms(host),
    snapshots: vmSnapshots(host),
    backup: vmBackup(host, tools),
    arrivals: migration.arrivals,
    replicas: replication.replicas,
    sampler: {
      askGuests: () => sampler.askGuests(),
      sample: () => sampler.sample(),
      rows: () => sampler.rows(),
      running: () => sampler.running(),
      balance: (guests) => balanceMemory(balance, guests),
    },
    atEnd: afterVmEnd(host),
    atProcessEnd: afterProcessEnd(host),
    prepare: () =>
      hostFacts.fresh().catch((err: unknown) => {
        log.error({ err: messageOf(err) }, "this host cannot be looked at");
      }),
    adopted: (running) => adoptFilters({ network, configs, log }, running),
    run: async (signal) => {
      await Promise.all([
        keepFilters(network, { clock, log }, signal),
        keepPins(pins, { clock, log }, signal),
      ]);
    },
    handlers: {
      ...createVmAgentHandlers(host),
      ...createVmMonitorHandlers(host),
      ...migration.handlers,
      ...createVmCloudinitHandlers({
        host,
        engine: parts.engine,
        dns: new ResolvConf(),
        sha1: parts.sha1Hex,
      }),
      ...createFileRestoreHandlers({ host, tools, spool, formats: diskFormats, pack: packFiles }),
      ...createVmStatisticsHandlers({
        statistics: (vmid, timeframe, cf) => {
          configs.get(vmid);
          return parts.history(vmid, timeframe, cf);
        },
      }),
      ...createVmHandlers({
        host,
        engine: parts.engine,
        sampled: parts.sampled,
        imageStorages,
        defaults: parts.defaults,
        archivedConfig,
      }),
    },
    extensions: {
      ...replication.routes,
      ...migration.routes,
      ...createConsoleExtensions(consoleParts),
      ...vmViewRoutes({
        host,
        takeFile: takeGuestFile,
        lastWords: (vmid) => processes.lastWords(String(vmid)),
      }),
      ...createBackupExtensions({ host: vzdumpPorts, engine: parts.engine }),
      ...createVmExtensions({
        host,
        engine: parts.engine,
        imageStorages,
        defaults: parts.defaults,
        archivedConfig,
      }),
    },
    tunnels: { ...consoleTunnels(consoleParts), ...lines.tunnels(), ...migration.tunnels },
    mappedPci: (id) => mappings.pciPaths(id),
    close: () => {
      background(log, "removing unpacked backups", spool.close());
      sessions.close();
      lines.close();
      spice.close();
      agents.close();
    },
  };
}
