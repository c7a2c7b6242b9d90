// The most that a VM's processes may take of the host: enough for every honest QEMU, and an end for one that a guest
// has got hold of.
import { listDrives } from "../config/drive.ts";
import type { VmValues } from "../config/vm-config.ts";
import { memoryMiB, readVmProperty } from "../config/vm-properties.ts";
import type { GuestBounds } from "../../guest/guest-processes.ts";

const MIB = 1024 * 1024;
/** QEMU itself, its buffers and, when it emulates, up to 1 GiB of translated code. */
const PROGRAM_MIB = 2048;
/** Page tables and what the kernel keeps for the guest's memory. */
const PER_RAM = 1 / 16;
/** Metadata of an image and requests under way. */
const PER_DISK_MIB = 64;
const PER_CPU_MIB = 16;
const DEFAULT_SCREEN_MIB = 64;

const PROGRAM_TASKS = 512;
/** Most threads that QEMU has for one disk's requests. */
const TASKS_PER_DISK = 64;
const TASKS_PER_CPU = 4;

export function vmBounds(values: VmValues): GuestBounds {
  const disks = listDrives(values).length;
  const cpus = Number(values["sockets"] ?? 1) * Number(values["cores"] ?? 1);
  const ram = memoryMiB(values["memory"]);
  const mib =
    ram * (1 + PER_RAM) +
    PROGRAM_MIB +
    disks * PER_DISK_MIB +
    cpus * PER_CPU_MIB +
    screensMiB(values) +
    sharedMiB(values);
  return {
    // `args` may bring memory of their own.
    ...((values["args"] ?? "") === "" ? { memoryBytes: Math.ceil(mib) * MIB } : {}),
    tasks: PROGRAM_TASKS + disks * TASKS_PER_DISK + cpus * TASKS_PER_CPU,
  };
}

export const TPM_BOUNDS: GuestBounds = { memoryBytes: 256 * MIB, tasks: 64 };
export const USER_NETWORK_BOUNDS: GuestBounds = { memoryBytes: 512 * MIB, tasks: 64 };

/** Whoever touches a page of shared memory first has it on his account: the guest's memory may be the file server's. */
export function fileServerBounds(values: VmValues): GuestBounds {
  return { memoryBytes: (memoryMiB(values["memory"]) + 1024) * MIB, tasks: 1024 };
}

/** Twice what the configuration says: QEMU draws beside what the guest has. Four screens of QXL have their own each. */
function screensMiB(values: VmValues): number {
  const text = values["vga"];
  const { memory = DEFAULT_SCREEN_MIB } = text === undefined ? {} : readVmProperty("vga", text, "vga");
  return memory * 2 * 4;
}

function sharedMiB(values: VmValues): number {
  const text = values["ivshmem"];
  return text === undefined ? 0 : readVmProperty("ivshmem", text, "ivshmem").size;
}
