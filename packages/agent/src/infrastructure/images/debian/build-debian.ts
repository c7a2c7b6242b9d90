// A full Debian with cloud-init and guest agent, of the release this host runs: mmdebstrap fills a folder, mke2fs turns
// it into a file system, GRUB's two parts for BIOS go before the first partition, those for UEFI into one of their own.
// Needs root, because files have owners; it installs nothing on this host: what it works with is only unpacked.
import { createHash } from "node:crypto";
import {
  closeSync,
  cpSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { DebianPackages } from "../debian-packages.ts";
import { FAT_PACKAGE, makeFatPartition } from "../fat-partition.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { masterBootRecord } from "../mbr.ts";
import { EFI_SYSTEM_PARTITION, UEFI_PACKAGES, uefiFiles } from "../uefi-boot.ts";

const MIB = 1024 * 1024;
/** The root is the first in the table and the last on the disk: the one that grows. */
const ROOT = { startBytes: 16 * MIB, sizeBytes: 3056 * MIB, type: 0x83, bootable: true };
const UEFI = { startBytes: MIB, sizeBytes: 15 * MIB, type: EFI_SYSTEM_PARTITION };
const UUID = "67707665-6465-6269-616e-000000000001";
const BOOT_CODE_BYTES = 440;

export const DEBIAN_PACKAGES: readonly string[] = [
  "linux-image-amd64", // the cloud flavour knows neither AHCI nor LSI
  "initramfs-tools",
  "grub-common",
  "grub-pc-bin",
  "systemd-sysv",
  "udev",
  "dbus",
  "kmod",
  "procps",
  "zstd",
  "cloud-init",
  "cloud-guest-utils",
  "fdisk",
  "e2fsprogs",
  "qemu-guest-agent",
  "openssh-server",
  "sudo",
  "ifupdown",
  "resolvconf", // ifupdown leaves name servers to it
  "isc-dhcp-client",
  "iproute2",
  "iputils-ping",
  "netbase",
  "ca-certificates",
  "less",
];

/** Used here, not installed in the guest. */
const TOOLS = ["mmdebstrap", FAT_PACKAGE, ...UEFI_PACKAGES];

/**
 * Debian keeps /vmlinuz and /initrd.img pointing at the newest kernel. `no_timer_check`: emulated on a busy host, the
 * guest gets no processor while Linux counts timer ticks, and Linux would then panic over a timer that works.
 */
const GRUB_CONFIG = `if [ "$grub_platform" = pc ]; then
  serial --unit=0 --speed=115200
  terminal_input serial console
  terminal_output serial console
fi
set timeout=0
menuentry Debian {
  linux /vmlinuz root=UUID=${UUID} rootfstype=ext4 ro console=tty0 console=ttyS0,115200 net.ifnames=0 no_timer_check quiet
  initrd /initrd.img
}
`;

const UEFI_GRUB_CONFIG = `search --set=root --fs-uuid ${UUID}
set prefix=($root)/boot/grub
configfile $prefix/grub.cfg
`;

/** Where instructions come from, and what would only cost time: keys nobody uses any more, a locale to be built. */
const CLOUD_CONFIG = `datasource_list: [ NoCloud, ConfigDrive, OpenNebula, None ]
ssh_genkeytypes: [ ed25519, ecdsa ]
locale: C.UTF-8
`;

/**
 * Only what finds the root file system, and the cloud-init disc, on a controller that a machine here may have: a
 * smaller start is a faster one. cloud-init looks for its disc before udev loads anything.
 */
const INITRAMFS = "MODULES=list\nCOMPRESS=zstd\n";
const INITRAMFS_MODULES = (
  "virtio_pci virtio_blk virtio_scsi ata_piix ahci nvme sym53c8xx mptspi megaraid_sas vmw_pvscsi " +
  "sd_mod sr_mod isofs ext4 crc32c"
).split(" ");

/** Timers that would have run already on a machine that was not just copied: none is due in the first minute. */
const TIMERS = ["apt-daily", "apt-daily-upgrade", "dpkg-db-backup", "e2scrub_all", "fstrim"];

export function debianRecipe(
  exec: Exec,
  host: { readonly uid: () => number; readonly codename: () => string } = thisHost,
): ImageRecipe {
  const debian = new DebianPackages(exec);
  const recipe = (): string => {
    const own = JSON.stringify([
      DEBIAN_PACKAGES,
      GRUB_CONFIG,
      uefiFiles("", UEFI_GRUB_CONFIG),
      CLOUD_CONFIG,
      [INITRAMFS, ...INITRAMFS_MODULES, ...TIMERS],
      [ROOT, UEFI],
      host.codename(),
    ]);
    return createHash("sha256").update(own).digest("hex");
  };
  return {
    name: "debian",
    stamp: () => `${recipe()} ${debian.listsChanged()}`,
    inputs: async () => {
      const files = await debian.locate([...DEBIAN_PACKAGES, ...TOOLS]);
      return [`recipe ${recipe()}`, ...files.map(({ file, checksum }) => `${file} ${checksum}`).toSorted()];
    },
    build: async (folder, target, say, signal) => {
      if (host.uid() !== 0) {
        throw new AppError(
          "feature.unsupported",
          "a Debian image is built by root only: run the agent as root",
        );
      }
      const work = { timeoutMs: 60 * 60_000, ...given({ signal }) };
      const root = join(folder, "root");
      const tools = join(folder, "tools");
      await debian.unpack(TOOLS, join(folder, "archives"), tools);
      const presets = presetFiles(join(folder, "presets"));
      say(`installing ${DEBIAN_PACKAGES.length} packages and what they need: this takes minutes`);
      // It mounts the host's /proc, /sys and more into the folder. In a mount namespace of its own these go with it, however it
      // ends: else who removes the folder of a build that was cut off would walk into them.
      await exec(
        "unshare",
        [
          "--mount",
          "--fork",
          "--kill-child",
          "perl",
          join(tools, "usr/bin/mmdebstrap"),
          "--mode=root",
          "--variant=minbase",
          `--include=${DEBIAN_PACKAGES.join(",")}`,
          // Before the kernel comes, whose installation makes the initramfs.
          ...presets.map(({ from, to }) => `--essential-hook=copy-in '${from}' ${to}`),
          host.codename(),
          root,
        ],
        {
          ...work,
          onLine: (line) => {
            if (line.startsWith("I:")) say(line.slice(2).trim());
          },
        },
      );
      configure(root);
      say("making the boot loader");
      await exec(
        "chroot",
        [
          root,
          "grub-mkimage",
          "-O",
          "i386-pc",
          "-o",
          "/boot/grub/core.img",
          "-p",
          "(hd0,msdos1)/boot/grub",
          "biosdisk",
          "part_msdos",
          "ext2",
        ],
        work,
      );
      say("making the disk");
      const disk = join(folder, "disk.raw");
      writeDisk(disk, root);
      await makeFatPartition(exec, tools, join(folder, "uefi"), {
        disk,
        partition: UEFI,
        label: "UEFI",
        serial: "67706462",
        files: uefiFiles(tools, UEFI_GRUB_CONFIG),
      });
      await exec(
        "mke2fs",
        [
          "-q",
          "-F",
          "-t",
          "ext4",
          "-L",
          "debian",
          "-U",
          UUID,
          "-O",
          "^metadata_csum_seed,^orphan_file", // GRUB of Debian 12 reads neither
          "-E",
          `offset=${ROOT.startBytes},nodiscard`,
          "-d",
          root,
          disk,
          `${ROOT.sizeBytes / 1024}k`,
        ],
        work,
      );
      // zlib, the default, takes several times as long in both directions.
      const format = ["-O", "qcow2", "-o", "compression_type=zstd"];
      await exec("qemu-img", ["convert", "-c", "-f", "raw", ...format, disk, target], work);
    },
  };
}

const thisHost = {
  uid: () => process.getuid?.() ?? -1,
  codename: () => {
    const name = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1];
    if (name !== undefined) return name;
    throw new AppError("feature.unsupported", "only a Debian host can build a Debian image");
  },
};

/** Folders that must lie in the new system before its packages are configured. */
function presetFiles(folder: string): { from: string; to: string }[] {
  const etc = join(folder, "etc/initramfs-tools");
  const share = join(folder, "share/initramfs-tools");
  mkdirSync(join(etc, "conf.d"), { recursive: true });
  mkdirSync(join(share, "modules.d"), { recursive: true });
  writeFileSync(join(etc, "conf.d/gpve"), INITRAMFS);
  writeFileSync(join(share, "modules.d/gpve"), `${INITRAMFS_MODULES.join("\n")}\n`);
  return [
    { from: etc, to: "/etc" },
    { from: share, to: "/usr/share" },
  ];
}

/** What makes a copied system somebody else's: no machine id, no host keys, a console, a name from cloud-init. */
function configure(root: string): void {
  const file = (path: string, text: string): void => writeFileSync(join(root, path), text);
  cpSync(join(root, "usr/lib/grub/i386-pc"), join(root, "boot/grub/i386-pc"), { recursive: true });
  file("boot/grub/grub.cfg", GRUB_CONFIG);
  file("etc/fstab", `UUID=${UUID} / ext4 errors=remount-ro 0 1\n`);
  file("etc/cloud/cloud.cfg.d/90-gpve.cfg", CLOUD_CONFIG);
  file("etc/hostname", "debian\n");
  file("etc/machine-id", "");
  // Never written to: a link in there would lead out of the new system.
  rmSync(join(root, "etc/resolv.conf"), { force: true });
  symlinkSync("../run/resolvconf/resolv.conf", join(root, "etc/resolv.conf"));
  file("etc/default/locale", "LANG=C.UTF-8\n");
  const timers = "var/lib/systemd/timers";
  mkdirSync(join(root, timers), { recursive: true });
  for (const timer of TIMERS) file(`${timers}/stamp-${timer}.timer`, "");
  for (const kind of ["rsa", "ecdsa", "ed25519"]) {
    rmSync(join(root, `etc/ssh/ssh_host_${kind}_key`), { force: true });
    rmSync(join(root, `etc/ssh/ssh_host_${kind}_key.pub`), { force: true });
  }
}

/** GRUB's first sector looks for the rest in the next one, which is where it is put. */
function writeDisk(path: string, root: string): void {
  const boot = readFileSync(join(root, "boot/grub/i386-pc/boot.img"));
  const core = readFileSync(join(root, "boot/grub/core.img"));
  if (core.length > UEFI.startBytes - 512) {
    throw new AppError(
      "internal.error",
      `GRUB's core of ${core.length} bytes does not fit before the partitions`,
    );
  }
  const disk = openSync(path, "w", 0o600);
  try {
    ftruncateSync(disk, ROOT.startBytes + ROOT.sizeBytes);
    writeSync(disk, masterBootRecord(boot.subarray(0, BOOT_CODE_BYTES), [ROOT, UEFI], 0x67706462));
    writeSync(disk, core, 0, core.length, 512);
  } finally {
    closeSync(disk);
  }
}
