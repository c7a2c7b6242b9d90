// Parsers for what a host is rather than what it does: system, devices, GPUs, control groups.

/** PRETTY_NAME of /etc/os-release. */
export function parseOsRelease(text: string): string {
  const line = /^PRETTY_NAME=(.*)$/m.exec(text)?.[1]?.trim() ?? "";
  return line.replace(/^(["'])(.*)\1$/, "$2") || "Linux";
}

/** /proc/mounts: 2 when the whole hierarchy is unified, 1 otherwise. */
export function parseCgroupVersion(mounts: string): 1 | 2 {
  return /^\S+ \/sys\/fs\/cgroup cgroup2 /m.test(mounts) ? 2 : 1;
}

/** The efivars file: four bytes of attributes, then the value. */
export function parseSecureBoot(content: Uint8Array | undefined): boolean {
  return content?.[4] === 1;
}

/** Block devices that are real disks: no loops, RAM disks, mappings or optical drives. */
export function isDiskName(name: string): boolean {
  return !/^(loop|ram|zram|dm-|sr|fd|md|nbd|zd)\d*/.test(name);
}

export interface Gpu {
  readonly uuid: string;
  readonly model: string;
  readonly memoryBytes: number;
  readonly driver: string;
}

/** `nvidia-smi --query-gpu=uuid,name,memory.total,driver_version --format=csv,noheader,nounits` (MiB). */
export function parseNvidiaSmi(csv: string): readonly Gpu[] {
  return csv
    .split("\n")
    .map((line) => line.split(",").map((field) => field.trim()))
    .filter((fields) => fields.length === 4 && fields[0] !== "")
    .map(([uuid = "", model = "", mebibytes = "", driver = ""]) => ({
      uuid,
      model,
      memoryBytes: (Number(mebibytes) || 0) * 1_048_576,
      driver: `nvidia ${driver}`,
    }));
}

/** PCI class 0x03xxxx is a display controller; 0x0300 with vendor 0x1234/0x1013/0x1b36 is an emulated one. */
export function isGpu(pciClass: string, vendor: string): boolean {
  return pciClass.trim().startsWith("0x03") && !["0x1234", "0x1013", "0x1b36"].includes(vendor.trim());
}

/** `qemu-system-x86_64 --version` */
export function parseQemuVersion(text: string): string | undefined {
  return /version (\d+\.\d+(?:\.\d+)?)/.exec(text)?.[1];
}

/** `qemu-system-x86_64 -machine help`: machine names in QEMU's order, without "none". */
export function parseQemuMachines(text: string): readonly string[] {
  return text
    .split("\n")
    .slice(1)
    .map((line) => line.split(/\s+/)[0] ?? "")
    .filter((name) => name !== "" && name !== "none");
}
