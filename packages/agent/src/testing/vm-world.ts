// A node with VMs: real storages and qemu-img in a scratch directory, real records in memory, guests that are made up.
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { firmwareTable, type HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import { sampleHost } from "@gpve/domain/vm/argv/testing/sample-host.ts";
import type { RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";
import { listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { emptyVmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { exec } from "@gpve/kit/exec.ts";
import { plainTools } from "../infrastructure/image-tools/image-tools.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { storedChains } from "../application/qemu/chain/backup-chains.ts";
import { PciReservations } from "../application/qemu/start/pci-reservations.ts";
import { VmConfigs } from "../application/qemu/config/vm-configs.ts";
import { noOtherNodes } from "../application/guest/move-ports.ts";
import { volumeOf } from "../application/guest/guest-storages.ts";
import { vmStarter, type StartVmPorts } from "../application/qemu/start/start-vm.ts";
import { registerSnapshots } from "../application/guest/snapshot-operations.ts";
import { vmSnapshots } from "../application/qemu/snapshot/vm-snapshots.ts";
import { registerVmOperations } from "../application/qemu/vm-operations.ts";
import { CloudinitVolumes } from "../infrastructure/cloudinit/cloudinit-volume.ts";
import { requireSnippet } from "../application/guest/snippet-volume.ts";
import { readSnippet } from "../infrastructure/cloudinit/snippets.ts";
import { createVmCloudinitHandlers } from "../presentation/pve/vm/vm-cloudinit-handlers.ts";
import { createVmHandlers } from "../presentation/pve/vm/vm-handlers.ts";
import { FakeVmNetwork } from "./fake-vm-network.ts";
import { FakeHostMemory } from "./fake-host-memory.ts";
import { FakeGuests } from "./fake-guests.ts";
import { Refused } from "./fake-qmp.ts";
import { contextOf, StorageWorld, type Rights } from "./storage-world.ts";

const VARS_BYTES = 540_672;

type OperationPorts = Parameters<typeof registerVmOperations>[1];
/** What every use case of VMs can be given. */
export interface WorldPorts extends StartVmPorts, OperationPorts {}

export class VmWorld extends StorageWorld {
  readonly guests = new FakeGuests();
  readonly records: Records;
  readonly configs: VmConfigs;
  readonly host: WorldPorts;
  /** Files of RAM that were sent to guests. */
  readonly sent: string[] = [];
  agentAnswers = false;
  /** What the host of the next start is like. */
  hostFacts: Partial<HostFacts> = {};
  readonly mediated = new Set<string>();
  readonly memory = new FakeHostMemory();
  readonly network = new FakeVmNetwork();
  /** Addresses of USB devices that are plugged in. */
  readonly usb = new Set<string>();
  readonly directories = new Map<string, string>();
  readonly agentCommands: string[] = [];
  /** Until it is known what runs guests. */
  mayStart: Promise<void> = Promise.resolve();
  /** What is wrong with mappings, by `type/id`. */
  readonly changed = new Map<string, string>();

  protected constructor(records: Records) {
    super();
    this.records = records;
    this.configs = new VmConfigs({
      node: "n1",
      records: () => records,
      sha1Hex: hash("sha1"),
      clock: systemClock,
    });
    writeFileSync(join(this.root, "OVMF_VARS_4M.fd"), Buffer.alloc(VARS_BYTES));
    let macs = 0;
    const ports: Omit<WorldPorts, "starter"> = {
      configs: this.configs,
      chains: storedChains({ node: "n1", records: () => records }),
      processes: this.guests,
      storages: {
        plugin: (id) => this.storages.find(id).plugin,
        definition: (id) => this.storages.find(id).definition,
      },
      network: this.network,
      cloudinit: new CloudinitVolumes({
        tools: plainTools(exec),
        dns: { read: async () => ({}), write: async () => undefined },
        snippet: (volid) => readSnippet((named) => requireSnippet(this.host, named), volid),
      }),
      ram: this.#ram(),
      qemu: {
        binary: "/usr/bin/qemu-system-x86_64",
        facts: () =>
          sampleHost({
            firmware: firmwareTable(this.root, () => VARS_BYTES),
            directoryMappings: new Set(this.directories.keys()),
            ...this.hostFacts,
          }),
        known: async () => undefined,
        mayStart: () => this.mayStart,
      },
      devices: {
        takePci: async (addresses) => addresses.map((address) => `/dev/vfio/${address}`),
        makeMdev: async (_parents, uuid) => {
          this.mediated.add(uuid);
          return `/dev/vfio/${uuid}`;
        },
        removeMdev: async (uuid) => void this.mediated.delete(uuid),
        isCharacterDevice: (path) => path === "/dev/ttyS0",
        scsiKind: (path) => (path === "/dev/sdg" ? "disk" : undefined),
        usbFiles: (address) => (this.usb.has(address) ? [`/dev/bus/usb/${address}`] : []),
      },
      memory: this.memory,
      pci: new PciReservations(this.guests),
      mappings: {
        directories: () => this.directories,
        requireDirectory: async () => undefined,
        changedHardware: (type, id) => this.changed.get(`${type}/${id}`),
      },
      agents: {
        of: () => ({
          isRunning: async () => this.agentAnswers,
          execute: async (command) => {
            this.agentCommands.push(command);
            return 1;
          },
        }),
      },
      moves: { servers: noOtherNodes("n1").servers },
      clock: systemClock,
      files: {
        exists: () => true,
        bytes: (path) => statSync(path, { throwIfNoEntry: false })?.size,
        isExecutable: (path) => path.endsWith(".sh"),
      },
      scripts: { run: async () => 0 },
      ids: {
        sha256Hex: hash("sha256"),
        newUuid: randomUUID,
        newMac: () => `BC:24:11:00:00:${(++macs).toString(16).padStart(2, "0").toUpperCase()}`,
      },
    };
    this.host = Object.assign(ports, { starter: vmStarter(ports) });
    this.guests.answers.set("blockdev-snapshot-internal-sync", (args) => this.#inQemu(args, "snapshot"));
    this.guests.answers.set("blockdev-snapshot-delete-internal-sync", (args) =>
      this.#inQemu(args, "deleteSnapshot"),
    );
  }

  static async open(): Promise<VmWorld> {
    return new VmWorld(await memoryRecords());
  }

  /** What QEMU does to an image, done by qemu-img. */
  async #inQemu(
    { device, name }: Readonly<Record<string, unknown>>,
    verb: "snapshot" | "deleteSnapshot",
  ): Promise<object> {
    for (const vmid of this.configs.list()) {
      const drive = listDrives(this.configs.get(vmid).values).find(({ key }) => `drive-${key}` === device);
      if (drive === undefined || this.guests.get(String(vmid)) === undefined) continue;
      const { plugin, volname } = volumeOf(this.host, drive.drive.file);
      const known = await plugin.snapshots(volname);
      if (verb === "deleteSnapshot" && !known.some((each) => each.name === name))
        throw new Refused(`Snapshot with id 'NULL' and name '${String(name)}' does not exist on device`);
      await plugin[verb](volname, String(name));
      return {};
    }
    throw new Refused(`Cannot find device='${String(device)}'`);
  }

  #ram(): RamStreams {
    return {
      receive: async () => ({
        uri: "unix:/nowhere",
        written: Promise.resolve(),
        close: async () => undefined,
      }),
      send: async (_process, _socket, file) => void this.sent.push(file),
    };
  }

  /** A VM that is just there. */
  async add(vmid: number, values: VmValues, more: Partial<VmConfig> = {}): Promise<void> {
    await this.configs.create(vmid, { ...emptyVmConfig, values, ...more });
  }

  /** One with a small disk. */
  async addWithDisk(vmid: number, values: VmValues = {}, format: "qcow2" | "raw" = "qcow2"): Promise<string> {
    const plugin = this.storages.find("local").plugin;
    await plugin.activate();
    const volname = await plugin.alloc({ vmid, format, size: 1024 * 1024 });
    await this.add(vmid, { scsi0: `local:${volname},size=1M`, smbios1: `uuid=${randomUUID()}`, ...values });
    return volname;
  }

  async run(vmid: number): Promise<void> {
    await this.guests.startQemu({
      id: String(vmid),
      label: `VM ${vmid}`,
      program: "",
      args: [],
      files: [],
      note: { machine: "pc-i440fx-7.2", cpu: "qemu64" },
    });
  }

  values(vmid: number): VmValues {
    return this.configs.get(vmid).values;
  }

  /** Files of a VM's disks. */
  images(vmid: number, storage = "local"): string[] {
    const folder = join(this.root, storage, "images", String(vmid));
    return existsSync(folder) ? readdirSync(folder).toSorted() : [];
  }
}

/** The world with its methods and operations. */
export class VmNode extends VmWorld {
  readonly engine: OperationEngine;
  /** What the tasks said. */
  readonly logs: MemoryTaskLogs;
  readonly handlers: PveHandlers;

  private constructor(records: Records) {
    super(records);
    const { engine, logs } = testEngine();
    this.engine = engine;
    this.logs = logs;
    registerVmOperations(this.engine, this.host);
    registerSnapshots(this.engine, vmSnapshots(this.host));
    this.handlers = {
      ...createVmCloudinitHandlers({
        host: this.host,
        engine: this.engine,
        dns: { read: async () => ({}) },
        sha1: hash("sha1"),
      }),
      ...createVmHandlers({
        host: this.host,
        engine: this.engine,
        sampled: () => undefined,
        imageStorages: () => this.definitions.map(({ storage }) => storage),
        defaults: () => ({}),
        archivedConfig: () => Promise.reject(new Error("nothing was ever saved")),
      }),
    };
  }

  static override async open(): Promise<VmNode> {
    const node = new VmNode(await memoryRecords());
    await node.engine.start();
    return node;
  }

  async call(route: PveRouteKey, params: object, rights?: Rights | "root"): Promise<unknown> {
    const handler = this.handlers[route] as ((params: unknown, ctx: RequestContext) => unknown) | undefined;
    if (handler === undefined) throw new AppError("internal.error", `no handler of ${route}`);
    const ctx = contextOf(rights === "root" ? undefined : rights);
    const actor = rights === "root" ? { userid: "root@pam", authid: "root@pam" } : ctx.actor;
    return handler({ node: "n1", ...params }, { ...ctx, ...given({ actor }) });
  }

  /** Calls a method that answers with a task and waits for its end. */
  async task(route: PveRouteKey, params: object, rights?: Rights | "root"): Promise<OperationView> {
    return this.engine.wait(String(await this.call(route, params, rights)));
  }

  async close(): Promise<void> {
    await this.engine.stop();
    this.remove();
  }
}

export function memoryRecords(): Promise<Records> {
  return openRecords(openSqliteStore({ path: ":memory:" }), { prefix: "/gpve/", log: silentLogger });
}

function hash(algorithm: string): (text: string) => string {
  return (text) => createHash(algorithm).update(text).digest("hex");
}
