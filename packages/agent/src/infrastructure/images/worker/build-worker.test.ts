import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { workerBaseRecipe, workerDiskRecipe } from "./build-worker.ts";
import { EARLY_INIT, WORKER_SCRIPTS } from "./worker-scripts.ts";

const RELEASE = "6.1.0-1-cloud-amd64";
const DEPENDS = `linux-image-cloud-amd64
  Depends: linux-image-${RELEASE}
nftables
  Depends: libnftables1
mount
  Depends: libmount1
libnftables1
libmount1
`;

/** The smallest ELF header: no segments, so no loader and no libraries. */
function staticProgram(): Uint8Array {
  const bytes = Buffer.alloc(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  return bytes;
}

/** Answers as apt and dpkg would, with packages that hold stand-ins. */
const packages: Exec = async (file, args, options) => {
  const answer = (stdout = "") => ({ code: 0, stdout, stderr: "" });
  const contents: [string, string | Uint8Array][] = [
    [`boot/vmlinuz-${RELEASE}`, "kernel"],
    ["bin/busybox", "busybox"],
    ["usr/sbin/nft", staticProgram()],
    ["bin/mount", staticProgram()],
    ["bin/umount", staticProgram()],
    [`lib/modules/${RELEASE}/kernel/virtio_blk.ko`, "\0depends=virtio\0alias=virtio:d2\0"],
    [`lib/modules/${RELEASE}/kernel/virtio.ko`, "\0depends=\0"],
    [`lib/modules/${RELEASE}/kernel/overlay.ko`, "\0depends=\0alias=fs-overlay\0"],
  ];
  if (file === "apt-cache") return answer(DEPENDS);
  if (file === "apt-get" && args.includes("--print-uris")) {
    const names = args.slice(args.indexOf("--print-uris") + 1);
    return answer(names.map((name) => `'http://x/${name}.deb' ${name}.deb 1 SHA256:${name}`).join("\n"));
  }
  if (file === "dpkg-deb")
    for (const [path, data] of contents) {
      const target = join(args[2] ?? "", path);
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, data);
    }
  if (file.endsWith("busybox")) return answer("busybox\ninit\nsh\nmount\nmodprobe\n");
  if (file === "mke2fs") return exec(file, args, options);
  return answer();
};

describe("the machine of L3 workers", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-worker-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("is a kernel, an archive that finds the root, and a root with what kubelets call", async () => {
    const base = join(folder, "base");
    await workerBaseRecipe(packages).build(folder, base, () => undefined);
    expect(readFileSync(join(base, "vmlinuz"), "utf8")).toBe("kernel");
    const early = zstdDecompressSync(readFileSync(join(base, "initrd"))).toString("latin1");
    expect(early).toContain("virtio_blk.ko\0");
    // What is not needed to find the root does not take memory.
    expect(early).not.toContain("overlay.ko\0");
    const root = (path: string): string => join(base, "root", path);
    expect(readlinkSync(root("sbin/init"))).toBe("/bin/busybox");
    expect(readlinkSync(root("etc/machine-id"))).toBe("/run/gpve/machine-id");
    expect(lstatSync(root("bin/mount")).isSymbolicLink()).toBe(false);
    expect(statSync(root("sbin/part")).mode & 0o777).toBe(0o755);
    expect(readFileSync(root(`lib/modules/${RELEASE}/modules.dep`), "utf8")).toContain(
      "virtio_blk.ko: virtio.ko",
    );
  });

  test("is made anew when, and only when, something in it is another", async () => {
    const inputs = await workerBaseRecipe(packages).inputs();
    expect(inputs[0]).toMatch(/^recipe [0-9a-f]{64}$/);
    expect(inputs).toContain("libnftables1.deb SHA256:libnftables1");
    const disk = (key: string) =>
      workerDiskRecipe(
        { base: "/c/worker-base-1", files: [{ from: "/x", to: "bin/x", key }], texts: {} },
        exec,
      );
    expect(await disk("a").inputs()).toEqual(["base worker-base-1", "bin/x a"]);
    expect(await disk("a").inputs()).not.toEqual(await disk("b").inputs());
  });

  test("becomes a disk with the programs of a version in it", async () => {
    const base = join(folder, "base");
    await workerBaseRecipe(packages).build(folder, base, () => undefined);
    writeFileSync(join(folder, "kubelet"), "a kubelet");
    const target = join(folder, "disk.ext4");
    const files = [{ from: join(folder, "kubelet"), to: "opt/gpve/bin/kubelet", key: "k" }];
    const recipe = workerDiskRecipe(
      { base, files, texts: { "opt/gpve/images/0.name": "pause\n" } },
      packages,
    );
    await recipe.build(folder, target, () => undefined);
    const read = async (path: string): Promise<string> =>
      (await exec("debugfs", ["-R", `cat ${path}`, target])).stdout;
    expect(await read("/opt/gpve/bin/kubelet")).toBe("a kubelet");
    expect(await read("/opt/gpve/images/0.name")).toBe("pause\n");
  });

  test("has scripts that a shell can read", async () => {
    const scripts = [EARLY_INIT, ...WORKER_SCRIPTS.map(({ text }) => text)].filter((text) =>
      text.startsWith("#!"),
    );
    expect(scripts.length).toBeGreaterThan(5);
    for (const text of scripts) await exec("sh", ["-n"], { input: text });
  });
});
