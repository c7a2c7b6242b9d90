// A Linux guest whose root lives in memory: up two seconds after its firmware. One disk with a FAT partition that has boot
// loaders (one for BIOS, one for UEFI), kernel and the root file system as an archive, and where it is asked for a small ext4
// one for what must survive a reboot.
// Nothing here needs root, a loop device or an installed package other than apt, dpkg, e2fsprogs and qemu-utils.
import { closeSync, ftruncateSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { cpioArchive, type CpioEntry } from "./cpio-archive.ts";
import { packagesRecipe } from "./packages-recipe.ts";
import { FAT_PACKAGE, makeFatPartition } from "./fat-partition.ts";
import type { ImageRecipe } from "./image-recipe.ts";
import { masterBootRecord } from "./mbr.ts";
import { EFI_SYSTEM_PARTITION, UEFI_PACKAGES, uefiFiles } from "./uefi-boot.ts";

const MIB = 1024 * 1024;
const BOOT = { startBytes: MIB, sizeBytes: 63 * MIB, type: EFI_SYSTEM_PARTITION, bootable: true };
const DATA = { startBytes: 64 * MIB, sizeBytes: 64 * MIB, type: 0x83 };
const SIGNATURE = 0x67707665;

/**
 * Fast where it matters without hardware help: no address randomisation, no defence against speculation. And no check
 * of the timer, which an emulated guest on a busy host fails though the timer works.
 */
const COMMAND_LINE = [
  "console=tty0",
  "console=ttyS0,115200",
  "quiet",
  "loglevel=3",
  "mitigations=off",
  "nokaslr",
  "net.ifnames=0",
  "no_timer_check",
  "random.trust_cpu=on",
  "memhp_default_state=online",
  "panic=10",
  "rdinit=/init",
].join(" ");

export interface MemoryGuest {
  readonly name: string;
  /** Debian packages that are taken with their libraries. */
  readonly programs: readonly string[];
  /** And those that are taken without, beside busybox and what boots. */
  readonly alone: readonly string[];
  /** What of it is ours: another one makes another image. */
  readonly own: readonly unknown[];
  readonly root: (packages: string, release: string) => Promise<CpioEntry[]>;
  /** The label of an ext4 partition; none without. */
  readonly data?: string;
}

export function memoryGuestRecipe(exec: Exec, guest: MemoryGuest): ImageRecipe {
  const { name, programs, alone, own, root, data } = guest;
  const parts = data === undefined ? [BOOT] : [BOOT, DATA];
  const boot = bootConfigs(name);
  return packagesRecipe(exec, {
    name,
    alone: ["busybox-static", "syslinux", "syslinux-common", FAT_PACKAGE, ...UEFI_PACKAGES, ...alone],
    programs,
    own: [...own, boot.syslinux, uefiFiles("", boot.grub), ...parts],
    build: async ({ folder, target, packages, release }, say) => {
      say(`packing the root file system for Linux ${release}`);
      const archive = cpioArchive(await root(packages, release));
      writeFileSync(join(folder, "initrd"), zstdCompressSync(archive));
      say("making the disk");
      const disk = join(folder, "disk.raw");
      writeDisk(disk, readFileSync(join(packages, "usr/lib/syslinux/mbr/mbr.bin")), parts);
      await fillBootPartition(exec, folder, disk, {
        kernel: join(packages, "boot", `vmlinuz-${release}`),
        label: name.toUpperCase(),
        ...boot,
      });
      if (data !== undefined) await makeDataPartition(exec, disk, data);
      await exec("qemu-img", ["convert", "-f", "raw", "-O", "qcow2", disk, target]);
    },
  });
}

function bootConfigs(name: string): { readonly syslinux: string; readonly grub: string } {
  return {
    syslinux: `PROMPT 0
TIMEOUT 0
DEFAULT ${name}
LABEL ${name}
  LINUX /vmlinuz
  INITRD /initrd
  APPEND ${COMMAND_LINE}
`,
    grub: `linux /vmlinuz ${COMMAND_LINE}
initrd /initrd
boot
`,
  };
}

function writeDisk(path: string, bootCode: Uint8Array, parts: readonly (typeof BOOT | typeof DATA)[]): void {
  const disk = openSync(path, "w", 0o600);
  try {
    ftruncateSync(disk, Math.max(...parts.map(({ startBytes, sizeBytes }) => startBytes + sizeBytes)));
    writeSync(disk, masterBootRecord(bootCode, parts, SIGNATURE));
  } finally {
    closeSync(disk);
  }
}

interface BootFiles {
  readonly kernel: string;
  readonly label: string;
  readonly syslinux: string;
  readonly grub: string;
}

async function fillBootPartition(
  exec: Exec,
  folder: string,
  disk: string,
  { kernel, label, syslinux, grub }: BootFiles,
): Promise<void> {
  const packages = join(folder, "packages");
  await makeFatPartition(exec, packages, join(folder, "boot"), {
    disk,
    partition: BOOT,
    label,
    serial: "67707665",
    files: [
      { path: "vmlinuz", content: { file: kernel } },
      { path: "initrd", content: { file: join(folder, "initrd") } },
      { path: "syslinux.cfg", content: { text: syslinux } },
      ...uefiFiles(packages, grub),
    ],
  });
  const tools = join(packages, "usr/bin");
  await exec(join(tools, "syslinux"), ["--offset", String(BOOT.startBytes), "--install", disk], {
    // It calls mtools by name.
    env: { ...MINIMAL_ENV, PATH: `${tools}:${MINIMAL_ENV["PATH"] ?? ""}`, MTOOLS_SKIP_CHECK: "1" },
    cwd: folder,
  });
}

async function makeDataPartition(exec: Exec, disk: string, label: string): Promise<void> {
  const uuid = "67707665-7469-6e79-0000-000000000001";
  await exec("mke2fs", [
    "-q",
    "-F",
    "-t",
    "ext4",
    "-L",
    label,
    "-U",
    uuid,
    "-m",
    "0",
    "-E",
    `offset=${DATA.startBytes},hash_seed=${uuid},lazy_itable_init=0,nodiscard`,
    disk,
    `${DATA.sizeBytes / 1024}k`,
  ]);
}
