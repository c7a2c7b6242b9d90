import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { tinyRecipe } from "./build-tiny.ts";
import { GUEST_SCRIPTS } from "./guest-scripts.ts";
import { SEED_SCRIPTS } from "./seed-script.ts";

const DEPENDS = `linux-image-cloud-amd64
  Depends: linux-image-6.1.0-1-cloud-amd64
qemu-guest-agent
  Depends: libc6
dropbear-bin
  Depends: libc6
libc6
`;

describe("building the tiny image", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-tiny-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Answers as apt and dpkg would, with packages that hold stand-ins; notes what the disk tools are told. */
  function fakeTools(calls: string[][]): Exec {
    const contents: [string, string | Uint8Array][] = [
      ["boot/vmlinuz-6.1.0-1-cloud-amd64", "kernel"],
      ["bin/busybox", "busybox"],
      ["usr/sbin/qemu-ga", staticProgram()],
      ["usr/sbin/dropbear", staticProgram()],
      ["usr/bin/dropbearkey", staticProgram()],
      ["usr/bin/scp", staticProgram()],
      ["usr/lib/syslinux/mbr/mbr.bin", "mbr"],
      ["usr/lib/shim/shimx64.efi.signed", "shim"],
      ["usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed", "grub"],
      ["lib/modules/6.1.0-1-cloud-amd64/kernel/virtio_pci.ko", "\0depends=\0alias=pci:v1\0"],
    ];
    return async (file, args, options) => {
      const answer = (stdout = ""): { code: number; stdout: string; stderr: string } => ({
        code: 0,
        stdout,
        stderr: "",
      });
      calls.push([file.replace(/^.*\//, ""), ...args]);
      if (file === "apt-cache") return answer(DEPENDS);
      if (file === "apt-get" && args.includes("--print-uris")) {
        const names = args.slice(args.indexOf("--print-uris") + 1);
        return answer(names.map((name) => `'http://x/${name}.deb' ${name}.deb 1 SHA256:${name}`).join("\n"));
      }
      if (file === "dpkg-deb") {
        for (const [path, data] of contents) {
          const target = join(args[2] ?? "", path);
          mkdirSync(dirname(target), { recursive: true });
          writeFileSync(target, data);
        }
      }
      if (file.endsWith("busybox")) return answer("busybox\ninit\nsh\ncount\n");
      if (file === "mke2fs") return exec("true", [], options);
      return answer();
    };
  }

  test("takes packages, packs the root file system and lays out the disk", async () => {
    const calls: string[][] = [];
    const said: string[] = [];
    await tinyRecipe(fakeTools(calls)).build(
      folder,
      join(folder, "out.qcow2"),
      (line) => void said.push(line),
    );
    const root = zstdDecompressSync(readFileSync(join(folder, "initrd"))).toString("latin1");
    for (const path of [
      "bin/sh",
      "sbin/apply-seed",
      "usr/sbin/dropbear",
      "usr/bin/scp",
      "lib/modules/6.1.0-1-cloud-amd64/modules.dep",
    ]) {
      expect(root).toContain(`${path}\0`);
    }
    expect(readFileSync(join(folder, "disk.raw")).subarray(510, 512)).toEqual(Buffer.from([0x55, 0xaa]));
    expect(calls.map(([tool]) => tool)).toEqual(
      expect.arrayContaining(["mformat", "mcopy", "syslinux", "mke2fs", "qemu-img"]),
    );
    const copied = calls.flatMap((call) => (call[0] === "mcopy" ? [call.at(-2)?.replace(/^.*\//, "")] : []));
    expect(copied).toEqual(["vmlinuz", "initrd", "syslinux.cfg", "EFI"]);
    const boot = (path: string): string => readFileSync(join(folder, "boot", path), "utf8");
    expect([boot("EFI/BOOT/BOOTX64.EFI"), boot("EFI/BOOT/grubx64.efi")]).toEqual(["shim", "grub"]);
    expect(boot("EFI/debian/grub.cfg")).toContain(/APPEND (.*)/.exec(boot("syslinux.cfg"))?.[1]);
    expect(said).toContain("packing the root file system for Linux 6.1.0-1-cloud-amd64");
  });

  test("has inputs that name the recipe and every package", async () => {
    const inputs = await tinyRecipe(fakeTools([])).inputs();
    expect(inputs[0]).toMatch(/^recipe [0-9a-f]{64}$/);
    expect(inputs).toContain("busybox-static.deb SHA256:busybox-static");
    expect(tinyRecipe(fakeTools([])).stamp?.()).toMatch(/^[0-9a-f]{64} \d/);
  });

  test("has scripts that a shell can read", async () => {
    const scripts = [...GUEST_SCRIPTS, ...SEED_SCRIPTS].filter(({ text }) => text.startsWith("#!"));
    expect(scripts.length).toBeGreaterThan(8);
    for (const { text } of scripts) await exec("sh", ["-n"], { input: text });
  });
});

/** The smallest ELF header: no segments, so no loader and no libraries. */
function staticProgram(): Uint8Array {
  const bytes = Buffer.alloc(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  return bytes;
}
