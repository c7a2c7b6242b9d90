// A full Debian with cloud-init and guest agent, of the release this host runs: mmdebstrap fills a folder, mke2fs turns
// it into a file system, GRUB's two parts go before the first partition. Needs root, because files have owners; it
// installs nothing on this host: mmdebstrap itself is only unpacked.
import { createHash } from "node:crypto";
import {
  closeSync,
  cpSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { DebianPackages } from "../debian-packages.ts";
import type { ImageRecipe } from "../image-recipe.ts";
import { masterBootRecord } from "../mbr.ts";

const MIB = 1024 * 1024;
const ROOT = { startBytes: MIB, sizeBytes: 3071 * MIB, type: 0x83, bootable: true };
const UUID = "67707665-6465-6269-616e-000000000001";
const BOOT_CODE_BYTES = 440;

export const DEBIAN_PACKAGES: readonly string[] = [
  "linux-image-amd64",
  "initramfs-tools",
  "grub-common",
  "grub-pc-bin",
  "systemd-sysv",
  "udev",
  "dbus",
  "kmod",
  "procps",
  "cloud-init",
  "cloud-guest-utils",
  "fdisk",
  "e2fsprogs",
  "qemu-guest-agent",
  "openssh-server",
  "sudo",
  "ifupdown",
  "isc-dhcp-client",
  "iproute2",
  "iputils-ping",
  "netbase",
  "ca-certificates",
  "less",
];

/** Debian keeps /vmlinuz and /initrd.img pointing at the newest kernel. */
const GRUB_CONFIG = `serial --unit=0 --speed=115200
terminal_input serial console
terminal_output serial console
set timeout=0
menuentry Debian {
  linux /vmlinuz root=UUID=${UUID} ro console=tty0 console=ttyS0,115200 net.ifnames=0 quiet
  initrd /initrd.img
}
`;

const CLOUD_CONFIG = `datasource_list: [ NoCloud, ConfigDrive, OpenNebula, None ]
`;

export function debianRecipe(
  exec: Exec,
  host: { readonly uid: () => number; readonly codename: () => string } = thisHost,
): ImageRecipe {
  const debian = new DebianPackages(exec);
  const recipe = (): string => {
    const own = JSON.stringify([DEBIAN_PACKAGES, GRUB_CONFIG, CLOUD_CONFIG, ROOT, host.codename()]);
    return createHash("sha256").update(own).digest("hex");
  };
  return {
    name: "debian",
    stamp: () => `${recipe()} ${debian.listsChanged()}`,
    inputs: async () => {
      const files = await debian.locate(DEBIAN_PACKAGES);
      return [`recipe ${recipe()}`, ...files.map(({ file, checksum }) => `${file} ${checksum}`).toSorted()];
    },
    build: async (folder, target, say, signal) => {
      if (host.uid() !== 0) {
        throw new AppError(
          "feature.unsupported",
          "a Debian image is built by root only: run the agent as root",
        );
      }
      const work = { timeoutMs: 60 * 60_000, ...(signal === undefined ? {} : { signal }) };
      const root = join(folder, "root");
      await debian.unpack(["mmdebstrap"], join(folder, "archives"), join(folder, "tools"));
      say(`installing ${DEBIAN_PACKAGES.length} packages and what they need: this takes minutes`);
      await exec(
        "perl",
        [
          join(folder, "tools/usr/bin/mmdebstrap"),
          "--mode=root",
          "--variant=minbase",
          `--include=${DEBIAN_PACKAGES.join(",")}`,
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
      await exec("qemu-img", ["convert", "-c", "-f", "raw", "-O", "qcow2", disk, target], work);
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

/** What makes a copied system somebody else's: no machine id, no host keys, a console, a name from cloud-init. */
function configure(root: string): void {
  const file = (path: string, text: string): void => writeFileSync(join(root, path), text);
  cpSync(join(root, "usr/lib/grub/i386-pc"), join(root, "boot/grub/i386-pc"), { recursive: true });
  file("boot/grub/grub.cfg", GRUB_CONFIG);
  file("etc/fstab", `UUID=${UUID} / ext4 errors=remount-ro 0 1\n`);
  file("etc/cloud/cloud.cfg.d/90-gpve.cfg", CLOUD_CONFIG);
  file("etc/hostname", "debian\n");
  file("etc/machine-id", "");
  file("etc/resolv.conf", "");
  for (const kind of ["rsa", "ecdsa", "ed25519"]) {
    rmSync(join(root, `etc/ssh/ssh_host_${kind}_key`), { force: true });
    rmSync(join(root, `etc/ssh/ssh_host_${kind}_key.pub`), { force: true });
  }
}

/** GRUB's first sector looks for the rest in the next one, which is where it is put. */
function writeDisk(path: string, root: string): void {
  const boot = readFileSync(join(root, "boot/grub/i386-pc/boot.img"));
  const core = readFileSync(join(root, "boot/grub/core.img"));
  if (core.length > ROOT.startBytes - 512) {
    throw new AppError(
      "internal.error",
      `GRUB's core of ${core.length} bytes does not fit before the partition`,
    );
  }
  const disk = openSync(path, "w", 0o600);
  try {
    ftruncateSync(disk, ROOT.startBytes + ROOT.sizeBytes);
    writeSync(disk, masterBootRecord(boot.subarray(0, BOOT_CODE_BYTES), [ROOT], 0x67706462));
    writeSync(disk, core, 0, core.length, 512);
  } finally {
    closeSync(disk);
  }
}
