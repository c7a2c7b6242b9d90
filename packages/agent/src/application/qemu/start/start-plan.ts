// From a configuration to everything a start needs: QEMU's command line, the files it may open, its network devices.
import { missing } from "@gpve/domain/request/failures.ts";
import { hostFile, type BlockNode } from "@gpve/domain/storage/block-node.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { FREE_DESCRIPTORS, type GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestTap, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { vmBounds } from "@gpve/domain/vm/running/vm-bounds.ts";
import type {
  CommandInput,
  CommandOptions,
  NetDescriptors,
  QemuCommand,
  ResolvedVolume,
} from "@gpve/domain/vm/argv/command-input.ts";
import { factsFor, guestArch, qemuBinaryFor } from "@gpve/domain/vm/argv/processor/guest-arch.ts";
import { firmwareImage } from "@gpve/domain/vm/argv/machine/firmware.ts";
import { planDescriptors, tapQueues } from "@gpve/domain/vm/argv/device/net-descriptors.ts";
import { monitorPaths } from "@gpve/domain/vm/argv/machine/monitors.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { isCdrom, listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { Drive, NetDevice, Smbios1 } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { hostNetworkReason } from "@gpve/domain/vm/host/host-network.ts";
import { hugepageFolder, sharedMemoryPath } from "@gpve/domain/vm/host/host-memory.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { DIRECT_BYTES } from "@gpve/domain/vm/argv/block/block-node.ts";
import { withOverlays } from "./disk-overlays.ts";
import { ignore } from "@gpve/kit/background.ts";
import { portPaths } from "./take-devices.ts";
import { isUserNetwork, userNetworkSocket, type UserNetworkPorts } from "../helpers/user-network.ts";
import { tpmProcessId } from "../helpers/tpm.ts";
import { fileServerId } from "../helpers/virtiofs.ts";
import { listNets, type HostBridge } from "@gpve/domain/vm/config/vm-network.ts";
import { processId } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { PciReservations } from "./pci-reservations.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface StartPlanPorts extends UserNetworkPorts {
  readonly processes: QemuProcesses;
  readonly pci: PciReservations;
  readonly devices: HostDevices;
  readonly ids: Ids;
  readonly storages: GuestStorages;
  readonly configs: VmConfigs;
}

export interface StartPlan {
  readonly start: QemuStart;
  readonly command: QemuCommand;
}

export async function planStart(
  host: StartPlanPorts,
  vmid: number,
  values: VmValues,
  options: CommandOptions = {},
  extraFiles: readonly GuestFile[] = [],
  below: ReadonlyMap<string, NonNullable<ResolvedVolume["backing"]>> = new Map(),
): Promise<StartPlan> {
  const [found, network] = await Promise.all([
    resolveVolumes(host, values).then((volumes) => withOverlays(host, vmid, values, volumes)),
    planNetwork(host, vmid, values),
  ]);
  const resolved = new Map(
    [...found.resolved].map(([file, volume]) => {
      const backing = below.get(file);
      return [file, backing === undefined ? volume : { ...volume, backing }];
    }),
  );
  const volumes = withEfiVars(host, vmid, values, { ...found, resolved });
  const input = commandInput(host, vmid, values, volumes, {
    ...options,
    vncPassword: true,
    netDescriptors: network.descriptors,
    netSockets: network.sockets,
  });
  const command = qemuCommand({ ...input, host: { ...input.host, bridgeMtu: network.bridgeMtu } });
  const uuid = readUuid(values);
  return {
    command,
    start: {
      id: processId(vmid),
      label: `VM ${vmid}`,
      program: input.paths.binary,
      args: command.argv.slice(1),
      ...given({ uuid }),
      files: [...volumes.files, ...extraFiles],
      ioFiles: [
        ...found.ioFiles,
        ...(volumes.efiVars === undefined ? [] : [{ name: "efivars", copyOf: volumes.efiVars }]),
      ],
      taps: network.taps,
      ...given({ vhost: network.vhost }),
      hostNetwork:
        hostNetworkReason(
          values,
          [...volumes.resolved.values()].map(({ node }) => node),
        ) !== undefined,
      needsKvm: command.accelerator === "kvm",
      limits: limitsOf(values),
      bounds: vmBounds(values),
      ...given({ affinity: values["affinity"] }),
      note: {
        machine: command.machine,
        cpu: command.cpu,
        accelerator: command.accelerator,
        notes: command.notes,
        ...given({ startup: values["startup"] }),
      },
    },
  };
}

/** A guest with UEFI and no EFI disk gets a variable store for this run only. */
function withEfiVars(
  host: StartPlanPorts,
  vmid: number,
  values: VmValues,
  volumes: ResolvedVolumes,
): ResolvedVolumes & { readonly efiVars?: string } {
  if (values["bios"] !== "ovmf" || values["efidisk0"] !== undefined) return volumes;
  const facts = host.qemu.facts();
  const { vars } = firmwareImage(facts, guestArch(values, facts), undefined, false);
  if (vars === undefined) return volumes;
  const filename = `${host.processes.placeOf(processId(vmid)).ioFolder}/efivars`;
  const resolved = new Map(volumes.resolved).set(filename, {
    node: { driver: "file", filename },
    format: "raw",
    contentType: "other",
  });
  return { ...volumes, resolved, efiVars: vars };
}

/** What the command line, and every device plugged later, is made of. */
export function commandInput(
  host: StartPlanPorts,
  vmid: number,
  values: VmValues,
  volumes: Pick<ResolvedVolumes, "resolved">,
  options: CommandOptions,
): CommandInput {
  const io = host.processes.placeOf(processId(vmid)).ioFolder;
  const place = host.processes.placeOf(processId(vmid));
  return {
    vmid,
    config: values,
    host: {
      ...factsFor(values, host.qemu.facts()),
      pciInUse: host.pci.inUse(vmid),
      characterDevices: new Set(portPaths(values).filter((path) => host.devices.isCharacterDevice(path))),
    },
    sha256Hex: host.ids.sha256Hex,
    volumes: (file) => {
      const found = volumes.resolved.get(file);
      if (found === undefined) throw new AppError("internal.error", `volume '${file}' was not looked up`);
      return found;
    },
    paths: {
      binary: qemuBinaryFor(values, host.qemu.facts(), host.qemu.binary),
      ...monitorPaths(place),
      spice: `${io}/spice`,
      agent: place.socketPath("qga"),
      vnc: `${io}/vnc`,
      swtpm: `${host.processes.placeOf(tpmProcessId(vmid)).ioFolder}/swtpm`,
      efiVars: `${io}/efivars`,
      serial: (index) => place.socketPath(`serial${index}`),
      virtiofs: (index) => `${host.processes.placeOf(fileServerId(vmid, index)).ioFolder}/virtiofs`,
      sharedMemory: sharedMemoryPath,
      hugepages: (sizeMiB) => hugepageFolder(sizeMiB, processId(vmid)),
    },
    options,
  };
}

export interface ResolvedVolumes {
  readonly resolved: ReadonlyMap<string, ResolvedVolume>;
  readonly files: readonly GuestFile[];
}

export async function resolveVolumes(host: StartPlanPorts, values: VmValues): Promise<ResolvedVolumes> {
  const resolved = new Map<string, ResolvedVolume>();
  const files = new Map<string, GuestFile>();
  const drives = listDrives(values).filter(
    ({ drive }, at, all) =>
      drive.file !== "none" && all.findIndex((other) => other.drive.file === drive.file) === at,
  );
  const found = await Promise.all(drives.map(({ drive }) => resolveVolume(host, drive)));
  drives.forEach(({ key, drive }, at) => {
    const volume = found[at];
    if (volume === undefined) return;
    resolved.set(drive.file, volume.resolved);
    // The state of a TPM is its process's own, and none of QEMU's.
    if (key !== "tpmstate0") for (const file of volume.files) files.set(file.path, file);
  });
  return { resolved, files: [...files.values()] };
}

async function resolveVolume(
  host: StartPlanPorts,
  drive: Drive,
): Promise<{ resolved: ResolvedVolume; files: GuestFile[] }> {
  const access = isCdrom(drive) || drive.ro === true || drive.snapshot === true ? "ro" : "rw";
  if (drive.file === "cdrom") return physicalCdrom(host);
  if (parseVolumeId(drive.file) === undefined) return pathOnHost(host, drive, access);
  const { plugin, volname, storage } = volumeOf(host, drive.file);
  await plugin.activate();
  const block = plugin.block(volname);
  const definition = host.storages.definition(storage);
  const parsed = plugin.parse(volname);
  // Throws when the image names other files than our records do.
  const image = await plugin.attach(volname).catch((err: unknown) => {
    if (!isAppError(err, "object.not_found")) throw err;
    ignore(err, "told by who opens it");
    return undefined;
  });
  const below = image?.backing ?? [];
  const { node } = image ?? block;
  // Disks, and discs of cloud-init with a password's hash, are read by their guest and by nobody else.
  const owned = access === "rw" || (parsed.type === "images" && !parsed.isBase);
  const bytes = node.driver === "file" ? (host.files.bytes(node.filename ?? "") ?? 0) : 0;
  return {
    resolved: {
      node,
      format: block.format,
      contentType: parsed.type === "iso" ? "iso" : parsed.type === "import" ? "import" : "images",
      storage: { id: storage, type: definition.type, content: [...contentOf(definition)] },
      ...(bytes % DIRECT_BYTES === 0 ? {} : { unaligned: true }),
      ...(image === undefined ? {} : { backing: below }),
    },
    files: [
      ...filesOf(node, { access, owned }),
      ...below.flatMap((layer) => filesOf(layer.node, { access: "ro", owned: false })),
    ],
  };
}

function filesOf(node: BlockNode, use: Pick<GuestFile, "access" | "owned">): GuestFile[] {
  const path = hostFile(node);
  return path === undefined ? [] : [{ path, ...use, ofStorage: true }];
}

/** A disk of the host, or an image outside every storage. Only discs are for everybody to read. */
function pathOnHost(
  host: StartPlanPorts,
  drive: Drive,
  access: GuestFile["access"],
): { resolved: ResolvedVolume; files: GuestFile[] } {
  const path = drive.file;
  const cdrom = isCdrom(drive);
  const device = cdrom ? "host_cdrom" : "host_device";
  const node = { driver: path.startsWith("/dev/") ? device : "file", filename: path };
  const scsi = cdrom ? undefined : host.devices.scsiKind(path);
  return {
    resolved: {
      node,
      format: drive.format ?? "raw",
      contentType: "other",
      ...given({ scsi }),
    },
    files: [{ path, access, ofHost: true, ...(cdrom ? {} : { owned: true }) }],
  };
}

const CDROM_DEVICES = ["/dev/cdrom", "/dev/cdrom1", "/dev/cdrom2"];

/** The drive built into this machine. */
function physicalCdrom(host: StartPlanPorts): { resolved: ResolvedVolume; files: GuestFile[] } {
  const path = CDROM_DEVICES.find((device) => host.files.exists(device));
  if (path === undefined)
    throw missing(
      `node '${host.configs.node}' has no CD drive (no ${CDROM_DEVICES.join(", ")}): choose an image or none`,
    );
  return {
    resolved: { node: { driver: "host_cdrom", filename: path }, format: "raw", contentType: "other" },
    files: [{ path, access: "ro", owned: false }],
  };
}

interface Network {
  readonly descriptors: Readonly<Record<string, NetDescriptors>>;
  readonly sockets: Readonly<Record<string, string>>;
  readonly taps: readonly (GuestTap & { firstFd: number })[];
  readonly vhost: { count: number; firstFd: number } | undefined;
  /** By the configuration's names. */
  readonly bridgeMtu: Readonly<Record<string, number>>;
}

async function planNetwork(host: StartPlanPorts, vmid: number, values: VmValues): Promise<Network> {
  const sockets = listNets(values)
    .filter(({ net }) => isUserNetwork(host, net))
    .map(({ key }) => [key, userNetworkSocket(host, vmid, key)]);
  const { cards, vhost, descriptors, end } = planDescriptors(
    values,
    host.qemu.facts(),
    FREE_DESCRIPTORS.first,
    (net) => !isUserNetwork(host, net),
  );
  const taps: (GuestTap & { firstFd: number })[] = [];
  const bridgeMtu: Record<string, number> = {};
  for (const { key, net, firstFd } of cards) {
    const bridge = await host.network.bridge(key, net);
    bridgeMtu[net.bridge ?? ""] = bridge.mtu;
    taps.push({ ...guestTap(host.network.newTap(vmid, key), net, bridge), firstFd });
  }
  if (end > FREE_DESCRIPTORS.end) {
    const [needed, most] = [end - FREE_DESCRIPTORS.first, FREE_DESCRIPTORS.end - FREE_DESCRIPTORS.first];
    throw new AppError(
      "capacity.exceeded",
      `the network cards of VM ${vmid} need ${needed} descriptors, of ${most} at most: give them fewer queues`,
      { pveStatus: 500 },
    );
  }
  return {
    descriptors,
    sockets: Object.fromEntries(sockets) as Record<string, string>,
    taps,
    vhost,
    bridgeMtu,
  };
}

/** A bridge takes the lowest MTU of its ports, so a tap has the bridge's; a card's own is told to the guest alone. */
export function guestTap(name: string, net: NetDevice, bridge: HostBridge): GuestTap & { queues: number } {
  return { name, bridge: bridge.device, queues: tapQueues(net), mtu: bridge.mtu };
}

function readUuid(values: VmValues): string | undefined {
  const text = values["smbios1"];
  return text === undefined ? undefined : (readVmProperty("smbios1", text, "smbios1") as Smbios1).uuid;
}

export function limitsOf(values: VmValues): NonNullable<QemuStart["limits"]> {
  return {
    ...(values["cpuunits"] === undefined ? {} : { cpuUnits: Number(values["cpuunits"]) }),
    ...(values["cpulimit"] === undefined ? {} : { cpuLimit: Number(values["cpulimit"]) }),
  };
}
