import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { DEBIAN_PACKAGES, debianRecipe } from "./build-debian.ts";

describe("building a Debian image", () => {
  let folder: string;
  let core: Uint8Array;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-debian-"));
    core = Buffer.from("core");
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const root = { uid: () => 0, codename: () => "bookworm" };
  const tools =
    (calls: string[][] = []): Exec =>
    async (file, args, options) => {
      calls.push([file, ...args]);
      const put = (path: string, data: string | Uint8Array): void => {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        writeFileSync(join(folder, path), data);
      };
      if (file === "unshare") {
        put("root/usr/lib/grub/i386-pc/boot.img", new Uint8Array(512).fill(7));
        put("root/boot/grub/keep", "");
        put("root/etc/default/keep", "");
        put("root/etc/resolv.conf", "nameserver of the host");
        put("root/etc/cloud/cloud.cfg.d/keep", "");
        put("root/etc/ssh/ssh_host_rsa_key", "secret");
        put("tools/usr/lib/shim/shimx64.efi.signed", "shim");
        put("tools/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed", "grub");
        options?.onLine?.("I: running apt-get update", "stderr");
        options?.onLine?.("W: noise", "stderr");
      }
      if (file === "chroot") put("root/boot/grub/core.img", core);
      const names = args.includes("--print-uris") ? args.slice(args.indexOf("--print-uris") + 1) : [];
      const stdout = names.map((name) => `'http://x/${name}.deb' ${name}.deb 1 SHA256:${name}`).join("\n");
      return { code: 0, stdout, stderr: "" };
    };

  test("installs packages, removes what is personal, and puts GRUB before the partition", async () => {
    const calls: string[][] = [];
    const said: string[] = [];
    const recipe = debianRecipe(tools(calls), root);
    await recipe.build(
      folder,
      join(folder, "out"),
      (line) => void said.push(line),
      new AbortController().signal,
    );
    const disk = Buffer.alloc(1024);
    const file = openSync(join(folder, "disk.raw"), "r");
    readSync(file, disk);
    closeSync(file);
    expect([disk[0], disk[439], disk[446]]).toEqual([7, 7, 0x80]);
    expect(disk.toString("latin1", 512, 516)).toBe("core");
    // The second partition of the table is for UEFI firmware.
    expect([disk[446 + 16], disk[446 + 16 + 4]]).toEqual([0, 0xef]);
    const uefi = (path: string): string => readFileSync(join(folder, "uefi/EFI", path), "utf8");
    expect([uefi("BOOT/BOOTX64.EFI"), uefi("BOOT/grubx64.efi")]).toEqual(["shim", "grub"]);
    expect(uefi("debian/grub.cfg")).toContain("configfile $prefix/grub.cfg\n");
    expect(existsSync(join(folder, "root/etc/ssh/ssh_host_rsa_key"))).toBe(false);
    expect(readFileSync(join(folder, "root/etc/machine-id"), "utf8")).toBe("");
    const bootstrap = calls.find((call) => call.includes("perl"));
    expect(bootstrap).toContain("bookworm");
    expect(bootstrap?.slice(0, 2), "its mounts go with it").toEqual(["unshare", "--mount"]);
    expect(readlinkSync(join(folder, "root/etc/resolv.conf"))).toBe("../run/resolvconf/resolv.conf");
    // Before the kernel is installed, with paths that a space does not cut.
    const presets = calls.flat().filter((arg) => arg.startsWith("--essential-hook=copy-in '"));
    expect(presets.map((arg) => arg.split(" ").at(-1))).toEqual(["/etc", "/usr/share"]);
    expect(readFileSync(join(folder, "presets/share/initramfs-tools/modules.d/gpve"), "utf8")).toContain(
      "sr_mod\n",
    );
    expect(calls.at(-1)?.[0]).toBe("qemu-img");
    expect(said).toContain("running apt-get update");
    expect(said).not.toContain("noise");
  });

  test("depends on the packages apt has today", async () => {
    const recipe = debianRecipe(tools(), root);
    const inputs = await recipe.inputs();
    expect(inputs).toContain("shim-signed.deb SHA256:shim-signed");
    expect(inputs).toHaveLength(DEBIAN_PACKAGES.length + 5);
    expect(recipe.stamp?.()).toMatch(/^[0-9a-f]{64} \d/);
  });

  test("is refused to other users than root, and a boot loader that is too large", async () => {
    const user = debianRecipe(tools(), { ...root, uid: () => 1000 });
    await expect(user.build(folder, "x", () => undefined)).rejects.toThrow("by root only");
    core = new Uint8Array(1024 * 1024);
    await expect(debianRecipe(tools(), root).build(folder, "x", () => undefined)).rejects.toThrow(
      "does not fit",
    );
  });
});
