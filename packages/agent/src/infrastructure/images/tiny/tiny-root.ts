// The root file system of the tiny guest, which lives in memory: busybox, qemu-ga and an SSH server with their libraries, the
// modules a virtual machine's devices need, and our scripts.
import type { Exec } from "@gpve/kit/exec.ts";
import type { CpioEntry } from "../cpio-archive.ts";
import { memoryRoot } from "../memory-root.ts";
import { GUEST_SCRIPTS } from "./guest-scripts.ts";
import { SEED_SCRIPTS } from "./seed-script.ts";

/** Drivers of what QEMU can show a guest. A kernel that has one built in, or not at all, goes without it. */
export const GUEST_MODULES: readonly string[] = [
  "virtio_pci",
  "virtio_blk",
  "virtio_scsi",
  "virtio_net",
  "virtio_console",
  "virtio_balloon",
  "virtio_rng",
  "virtio_mem",
  "virtio_input",
  "ata_piix",
  "ahci",
  "sd_mod",
  "sr_mod",
  "nvme",
  "e1000",
  "e1000e",
  "8139cp",
  "vmxnet3",
  "isofs",
  "vfat",
  "ext4",
  "virtiofs",
  "overlay",
  "crc32c_generic",
  "nls_ascii",
  "nls_cp437",
  "nls_utf8",
  "evdev",
  "button",
  "uhci_hcd",
  "ehci_pci",
  "xhci_pci",
  "usb_storage",
  "usbhid",
  "hid_generic",
  "i6300esb",
  "lsi53c8xx",
  "sym53c8xx",
  "mptspi",
  "megaraid_sas",
];

export const GUEST_PROGRAMS = [
  "usr/sbin/qemu-ga",
  "usr/sbin/dropbear",
  "usr/bin/dropbearkey",
  "usr/bin/scp",
] as const;

const EMPTY_FOLDERS = [
  "dev",
  "proc",
  "sys",
  "run",
  "tmp",
  "mnt",
  "data",
  "root",
  "home",
  "var",
  "etc/acpi",
  "etc/dropbear",
];

export function tinyRoot(packages: string, release: string, exec: Exec): Promise<CpioEntry[]> {
  return memoryRoot(packages, release, exec, {
    folders: EMPTY_FOLDERS,
    programs: GUEST_PROGRAMS,
    modules: GUEST_MODULES,
    scripts: [...GUEST_SCRIPTS, ...SEED_SCRIPTS],
    links: { "www/counter": "/run/counter" },
  });
}
