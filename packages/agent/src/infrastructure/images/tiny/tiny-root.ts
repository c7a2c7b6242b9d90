// The root file system of the tiny guest, which lives in memory: busybox, qemu-ga and an SSH server with their libraries, the
// modules a virtual machine's devices need, and our scripts.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Exec } from "@gpve/kit/exec.ts";
import { type CpioEntry, withFolders } from "../cpio-archive.ts";
import { moduleEntries } from "../module-entries.ts";
import { addLibraries, firstOf, uniqueEntries } from "../package-files.ts";
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
export async function tinyRoot(packages: string, release: string, exec: Exec): Promise<CpioEntry[]> {
  const entries: CpioEntry[] = EMPTY_FOLDERS.map((path) => ({ path, kind: "folder" }));
  const file = (path: string, data: Uint8Array, executable = false): void => {
    entries.push({ path, kind: "file", data, executable });
  };
  const busybox = firstOf(packages, ["bin/busybox", "usr/bin/busybox"]);
  file("bin/busybox", readFileSync(busybox), true);
  const { stdout } = await exec(busybox, ["--list"]);
  const own = new Set(GUEST_SCRIPTS.map(({ path }) => basename(path)));
  for (const applet of stdout
    .split("\n")
    .filter((name) => name !== "" && name !== "busybox" && !own.has(name))) {
    const folder = ["init", "poweroff", "reboot", "halt"].includes(applet) ? "sbin" : "bin";
    entries.push({ path: `${folder}/${applet}`, kind: "link", data: Buffer.from("/bin/busybox") });
  }
  entries.push({ path: "sbin/init", kind: "link", data: Buffer.from("/bin/busybox") });
  const needed = new Map<string, Uint8Array>();
  for (const path of GUEST_PROGRAMS) {
    const program = readFileSync(firstOf(packages, [path, path.replace("/sbin/", "/bin/")]));
    file(path, program, true);
    addLibraries(packages, program, needed);
  }
  for (const [path, bytes] of needed) file(path, bytes, true);
  entries.push(...(await moduleEntries(packages, release, GUEST_MODULES, exec)));
  for (const { path, text, executable } of [...GUEST_SCRIPTS, ...SEED_SCRIPTS]) {
    file(path, Buffer.from(text), executable);
  }
  entries.push({ path: "www/counter", kind: "link", data: Buffer.from("/run/counter") });
  return withFolders(uniqueEntries(entries));
}
