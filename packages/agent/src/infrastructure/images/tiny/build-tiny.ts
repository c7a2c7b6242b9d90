// The tiny guest: a Linux that is up two seconds after its firmware. One disk with two partitions: a FAT one with
// boot loaders (one for BIOS, one for UEFI), kernel and the root file system as an archive, and a small ext4 one for
// what must survive a reboot.
// Nothing here needs root, a loop device or an installed package other than apt, dpkg, e2fsprogs and qemu-utils.
import { closeSync, ftruncateSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { cpioArchive } from "../cpio-archive.ts";
import { packagesRecipe } from "../packages-recipe.ts";
import { FAT_PACKAGE, makeFatPartition } from "../fat-partition.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { masterBootRecord } from "../mbr.ts";
import { EFI_SYSTEM_PARTITION, UEFI_PACKAGES, uefiFiles } from "../uefi-boot.ts";
import { GUEST_SCRIPTS } from "./guest-scripts.ts";
import { SEED_SCRIPTS } from "./seed-script.ts";
import { GUEST_MODULES, GUEST_PROGRAMS, tinyRoot } from "./tiny-root.ts";

const MIB = 1024 * 1024;
const BOOT = { startBytes: MIB, sizeBytes: 63 * MIB, type: EFI_SYSTEM_PARTITION, bootable: true };
const DATA = { startBytes: 64 * MIB, sizeBytes: 64 * MIB, type: 0x83 };
const DISK_BYTES = 128 * MIB;
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

const SYSLINUX_CONFIG = `PROMPT 0
TIMEOUT 0
DEFAULT tiny
LABEL tiny
  LINUX /vmlinuz
  INITRD /initrd
  APPEND ${COMMAND_LINE}
`;

const GRUB_CONFIG = `linux /vmlinuz ${COMMAND_LINE}
initrd /initrd
boot
`;

export function tinyRecipe(exec: Exec): ImageRecipe {
  return packagesRecipe(exec, {
    name: "tiny",
    // Of openssh-client only scp is used, which needs nothing that the programs do not bring.
    alone: ["busybox-static", "syslinux", "syslinux-common", FAT_PACKAGE, ...UEFI_PACKAGES, "openssh-client"],
    programs: ["qemu-guest-agent", "dropbear-bin"],
    own: [
      GUEST_SCRIPTS,
      SEED_SCRIPTS,
      GUEST_MODULES,
      GUEST_PROGRAMS,
      SYSLINUX_CONFIG,
      uefiFiles("", GRUB_CONFIG),
      BOOT,
      DATA,
    ],
    build: async ({ folder, target, packages, release }, say) => {
      say(`packing the root file system for Linux ${release}`);
      const archive = cpioArchive(await tinyRoot(packages, release, exec));
      writeFileSync(join(folder, "initrd"), zstdCompressSync(archive));
      say("making the disk");
      const disk = join(folder, "disk.raw");
      writeDisk(disk, readFileSync(join(packages, "usr/lib/syslinux/mbr/mbr.bin")));
      await fillBootPartition(exec, folder, disk, join(packages, "boot", `vmlinuz-${release}`));
      await makeDataPartition(exec, disk);
      await exec("qemu-img", ["convert", "-f", "raw", "-O", "qcow2", disk, target]);
    },
  });
}

function writeDisk(path: string, bootCode: Uint8Array): void {
  const disk = openSync(path, "w", 0o600);
  try {
    ftruncateSync(disk, DISK_BYTES);
    writeSync(disk, masterBootRecord(bootCode, [BOOT, DATA], SIGNATURE));
  } finally {
    closeSync(disk);
  }
}

async function fillBootPartition(exec: Exec, folder: string, disk: string, kernel: string): Promise<void> {
  const packages = join(folder, "packages");
  await makeFatPartition(exec, packages, join(folder, "boot"), {
    disk,
    partition: BOOT,
    label: "TINY",
    serial: "67707665",
    files: [
      { path: "vmlinuz", content: { file: kernel } },
      { path: "initrd", content: { file: join(folder, "initrd") } },
      { path: "syslinux.cfg", content: { text: SYSLINUX_CONFIG } },
      ...uefiFiles(packages, GRUB_CONFIG),
    ],
  });
  const tools = join(packages, "usr/bin");
  await exec(join(tools, "syslinux"), ["--offset", String(BOOT.startBytes), "--install", disk], {
    // It calls mtools by name.
    env: { ...MINIMAL_ENV, PATH: `${tools}:${MINIMAL_ENV["PATH"] ?? ""}`, MTOOLS_SKIP_CHECK: "1" },
    cwd: folder,
  });
}

async function makeDataPartition(exec: Exec, disk: string): Promise<void> {
  const uuid = "67707665-7469-6e79-0000-000000000001";
  await exec("mke2fs", [
    "-q",
    "-F",
    "-t",
    "ext4",
    "-L",
    "tiny-data",
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
