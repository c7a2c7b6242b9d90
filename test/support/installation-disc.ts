// A bootable disc as distributions have them, made of the tiny image: it waits at its prompt,
// starts Linux and carries a disk to install.
import { createReadStream, createWriteStream, copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { tinyImage } from "./images.ts";

const CONFIG = `PROMPT 1
TIMEOUT 0
DEFAULT nothing-was-typed
LABEL tiny
  LINUX /vmlinuz
  INITRD /initrd
  APPEND console=tty0 console=ttyS0,115200 quiet loglevel=3 mitigations=off nokaslr net.ifnames=0 rdinit=/init
`;
/** Where the first partition of the tiny image begins. */
const BOOT_PARTITION = "1M";

/** Its path, in a folder that the caller removes. */
export async function installationDisc(folder: string): Promise<string> {
  const content = join(folder, "disc");
  mkdirSync(join(content, "isolinux"), { recursive: true });
  const disk = join(folder, "disk.raw");
  await exec("qemu-img", ["convert", "-O", "raw", await tinyImage(), disk]);
  const env = { ...MINIMAL_ENV, MTOOLS_SKIP_CHECK: "1" };
  for (const name of ["vmlinuz", "initrd"])
    await exec("mcopy", ["-n", "-i", `${disk}@@${BOOT_PARTITION}`, `::${name}`, join(content, name)], {
      env,
    });
  await pipeline(
    createReadStream(disk),
    createGzip({ level: 1 }),
    createWriteStream(join(content, "disk.gz")),
  );
  rmSync(disk);
  copyFileSync("/usr/lib/ISOLINUX/isolinux.bin", join(content, "isolinux/isolinux.bin"));
  copyFileSync("/usr/lib/syslinux/modules/bios/ldlinux.c32", join(content, "isolinux/ldlinux.c32"));
  writeFileSync(join(content, "isolinux/isolinux.cfg"), CONFIG);
  const disc = join(folder, "install.iso");
  const boot = ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot"];
  const loader = [...boot, "-boot-load-size", "4", "-boot-info-table"];
  await exec("xorriso", ["-as", "mkisofs", "-quiet", "-V", "INSTALL", "-R", "-o", disc, ...loader, content]);
  rmSync(content, { recursive: true });
  return disc;
}
