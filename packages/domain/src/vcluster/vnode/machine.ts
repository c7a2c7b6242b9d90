// The machine that an L3 worker is: what QEMU is told, where things are inside, and what its settings say.
import { monitorArguments, monitorPaths } from "../../vm/argv/machine/monitors.ts";
import { escapeComma } from "../../vm/argv/text/option-text.ts";
import type { GuestBounds, GuestPlace } from "../../guest/guest-processes.ts";
import { QEMU_SANDBOX } from "../../vm/argv/machine/sandbox.ts";
import { MOST_VNODES, podNetwork, type VnodeSize } from "./vnode.ts";
import type { VnodeHostFacts, VnodePlace } from "./vnode-files.ts";

/** What a worker may write, containers and what pods leave included; only what is written is taken of the node's disk. */
export const MACHINE_DISK_BYTES = 16 * 2 ** 30;
/** Of the disk with its settings: room for a hundred files, and always the same, so that it can be written anew. */
export const SETTINGS_DISK_BYTES = 2 ** 20;
/** Of the socket by which a machine and its node speak. */
export const MACHINE_LINE = "line";
/** Descriptor of its tap. */
export const MACHINE_TAP_FD = 32;

const MIB = 2 ** 20;
/** QEMU itself and what it translates. */
const PROGRAM_MIB = 2048;

export interface MachineFiles {
  readonly kernel: string;
  readonly initrd: string;
  /** Shared by all workers of a version. */
  readonly root: string;
  readonly own: string;
  readonly settings: string;
}

export interface MachineStart {
  readonly name: string;
  readonly uuid: string;
  readonly mac: string;
  readonly size: VnodeSize;
  readonly accelerator: "kvm" | "tcg";
  readonly files: MachineFiles;
  readonly place: Pick<GuestPlace, "socketPath">;
}

/** Whole ones: what a machine has in part its cgroup holds it to. */
export function machineCpus({ cpus }: VnodeSize): number {
  return Math.max(1, Math.ceil(cpus));
}

export function machineBounds({ memoryBytes }: VnodeSize): GuestBounds {
  return {
    memoryBytes: Math.ceil((memoryBytes / MIB) * (1 + 1 / 16) + PROGRAM_MIB) * MIB,
    tasks: 1024,
  };
}

/** Keys are on a disk, never among the arguments. */
export function machineArguments({
  name,
  uuid,
  mac,
  size,
  accelerator,
  files,
  place,
}: MachineStart): string[] {
  const isKvm = accelerator === "kvm";
  const disk = (id: string, path: string, isReadOnly: boolean): string[][] => [
    [
      "-blockdev",
      JSON.stringify({
        driver: "raw",
        "node-name": id,
        "read-only": isReadOnly,
        ...(isReadOnly ? {} : { discard: "unmap" }),
        file: { driver: "file", filename: path, ...(isReadOnly ? {} : { discard: "unmap" }) },
      }),
    ],
    ["-device", `virtio-blk-pci,drive=${id}`],
  ];
  const line = escapeComma(place.socketPath(MACHINE_LINE));
  return [
    ["-name", `guest=${escapeComma(name)},debug-threads=on`],
    ["-uuid", uuid],
    ["-no-user-config", "-nodefaults", "-no-reboot"],
    ["-display", "none"],
    ["-sandbox", QEMU_SANDBOX],
    monitorArguments(monitorPaths(place)),
    // A microvm has no clock that a kernel could count by unless KVM gives it one.
    ["-machine", isKvm ? "microvm,acpi=on,pcie=on,rtc=on,pit=off,pic=off,isa-serial=on" : "q35"],
    ["-accel", isKvm ? "kvm" : "tcg,thread=multi"],
    // Emulated, wide vector instructions are slow, and older QEMUs get some wrong: without them no library uses them.
    ["-cpu", isKvm ? "host" : "Nehalem"],
    ["-smp", String(machineCpus(size))],
    ["-m", `${Math.floor(size.memoryBytes / MIB)}M`],
    ["-kernel", files.kernel],
    ["-initrd", files.initrd],
    ["-append", kernelWords(isKvm)],
    ["-chardev", "stdio,id=console,signal=off"],
    ["-serial", "chardev:console"],
    ...disk("root", files.root, true),
    ...disk("own", files.own, false),
    ...disk("settings", files.settings, true),
    ["-netdev", `tap,id=net0,fd=${MACHINE_TAP_FD}`],
    ["-device", `virtio-net-pci,netdev=net0,mac=${mac}`],
    ["-device", "virtio-rng-pci"],
    ["-device", "virtio-serial-pci"],
    ["-chardev", `socket,id=line,path=${line},server=on,wait=off`],
    ["-device", "virtserialport,chardev=line,name=gpve"],
  ].flat();
}

/** Emulated, nobody outside profits from speculation, and every check costs. */
function kernelWords(isKvm: boolean): string {
  const always =
    "console=ttyS0 quiet loglevel=4 net.ifnames=0 random.trust_cpu=on apparmor=0 panic=1 reboot=t rdinit=/init";
  return isKvm ? always : `${always} nokaslr mitigations=off no_timer_check`;
}

/** Where its programs find things, inside. */
export function machinePlace(
  worker: Pick<VnodePlace, "name" | "address" | "podNetwork" | "pauseImage">,
): VnodePlace {
  return {
    ...worker,
    file: (name) => `/run/gpve/${name}`,
    containers: "/var/lib/containerd",
    cgroup: "/gpve",
    plugins: "/opt/gpve/cni",
    runc: "/opt/gpve/bin/runc",
  };
}

/** All of the machine is the worker's. */
export function machineFacts(size: VnodeSize): VnodeHostFacts {
  return {
    cgroupVersion: 2,
    cpus: machineCpus(size),
    memoryBytes: size.memoryBytes,
    mayLowerOomScore: true,
    filtersBridges: true,
  };
}

export interface MachineSettings {
  readonly name: string;
  readonly address: string;
  readonly gateway: string;
  readonly machineId: string;
  readonly podCidr: string;
  readonly slot: number;
  /** Of the worker in a place of its cluster. */
  readonly addressOf: (slot: number) => string;
}

/** Files beside those that every worker has. */
export function machineFiles(settings: MachineSettings): Readonly<Record<string, string>> {
  const { name, address, gateway, machineId } = settings;
  return {
    settings: `NAME=${name}\nADDRESS=${address}\nGATEWAY=${gateway}\n`,
    routes: podRoutes(settings),
    "machine-id": `${machineId}\n`,
    hosts: `127.0.0.1 localhost\n${address} ${name}\n`,
  };
}

/** To the pods of all workers that there can be: nobody has to tell a machine of those that come later. */
function podRoutes({ podCidr, slot: own, addressOf }: MachineSettings): string {
  return Array.from({ length: MOST_VNODES }, (_none, slot) => ({ slot, network: podNetwork(podCidr, slot) }))
    .flatMap(({ slot, network }) =>
      network === undefined || slot === own ? [] : [`${network} ${addressOf(slot)}\n`],
    )
    .join("");
}

/** What a machine says of its pods; whatever else is in it is no pod. */
export function readMachinePods(
  line: string,
): readonly { readonly namespace: string; readonly name: string; readonly uid: string }[] {
  const [word, ...entries] = line.trim().split(" ");
  if (word !== "pods") return [];
  return entries.flatMap((entry) => {
    const [, namespace, name, uid] =
      /^([a-z0-9-]{1,63})_([a-z0-9.-]{1,253})_([a-z0-9-]{1,64})$/.exec(entry) ?? [];
    return namespace === undefined || name === undefined || uid === undefined
      ? []
      : [{ namespace, name, uid }];
  });
}
