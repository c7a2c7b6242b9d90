// Law 7 on a host with cgroup version 2: a Debian kernel in a guest, with this machine's files as its root. Where the
// machine itself has version 2, the other tests of this folder show the same.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { bareQemu, type BareQemu } from "../../support/bare-qemu.ts";
import { nodeBinary, root } from "../../support/gpve.ts";
import { tinyImage } from "../../support/images.ts";
import { missingForGuests } from "./guest-world.ts";

const VIRTIOFSD = "/usr/lib/qemu/virtiofsd";
const missing =
  missingForGuests() ??
  (existsSync(VIRTIOFSD) ? undefined : `no ${VIRTIOFSD}: apt-get install qemu-system-common`);
if (missing !== undefined) console.warn(`SKIPPED confinement under cgroup version 2: ${missing}`);

interface Found {
  readonly version: number;
  readonly group: string;
  readonly uid: number;
  readonly capabilities: string;
  readonly seccomp: string;
  readonly usage: { readonly cpuNs: number; readonly memoryBytes: number };
  readonly limited: { readonly cpu: string; readonly weight: string; readonly memory: string };
  readonly bounded: { readonly memory: string; readonly swap: string; readonly tasks: string };
  readonly raised: { readonly memory: string; readonly tasks: string };
  readonly unlimited: { readonly cpu: string; readonly memory: string };
  readonly passwd: string;
  readonly ownBefore: string;
  readonly own: string;
  readonly exit: string;
}

describe.skipIf(missing !== undefined)("on a host with cgroup version 2, a confined guest", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-v2-"));
  const socket = join(folder, "root.sock");
  let files: Child;
  let host: BareQemu;
  let found: Found;

  beforeAll(async () => {
    // Built here: compiling in an emulated guest takes a minute.
    await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    });
    files = startChild(VIRTIOFSD, [`--socket-path=${socket}`, "-o", "source=/,sandbox=chroot,cache=always"]);
    while (!existsSync(socket)) await new Promise((done) => setTimeout(done, 20));
    host = await bareQemu(await tinyImage(), [
      "-m",
      "2048",
      "-object",
      "memory-backend-memfd,id=mem,size=2048M,share=on",
      "-machine",
      "pc,memory-backend=mem",
      "-device",
      "virtio-scsi-pci",
      "-device",
      "scsi-hd,drive=disk",
      "-chardev",
      `socket,id=fs,path=${socket}`,
      "-device",
      "vhost-user-fs-pci,chardev=fs,tag=host",
    ]);
    await host.until("tiny: ready");
    for (const line of [
      "modprobe virtiofs; modprobe overlay; mkdir -p /host /rw /new",
      "mount -t virtiofs host /host && mount -t tmpfs rw /rw && mkdir /rw/upper /rw/work",
      "mount -t overlay root -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work /new",
      "mount -t proc proc /new/proc && mount -t sysfs sys /new/sys && mount -t devtmpfs dev /new/dev",
      "mount -t cgroup2 cgroup /new/sys/fs/cgroup && echo mounted''-all",
    ])
      host.type(line);
    await host.until("mounted-all");
    const child = join(root, "test/integration/guests/confined-on-v2-child.ts");
    // Becomes the root of its mount namespace, as on any booted host: a guest's own namespace is entered from there.
    host.type(`cd /new && mount --move . / && chroot . ${nodeBinary} ${child}; echo child''-ended`);
    const text = await host.until("child-ended", 240_000);
    const line = /^FOUND (\{.*\})\r?$/m.exec(text)?.[1];
    if (line === undefined) throw new Error(`nothing was found:\n${text.slice(-3_000)}`);
    found = JSON.parse(line) as Found;
  });

  afterAll(async () => {
    await host?.stop();
    await files?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("runs under a uid and group of its own, without root's rights", () => {
    expect(found).toMatchObject({ version: 2, capabilities: "0000000000000000", seccomp: "2" });
    expect(found.uid).toBeGreaterThanOrEqual(0x4000_0000);
    expect(found.group).toMatch(/\/gpve-[\w-]+\/guest-100$/);
    expect(found.usage.cpuNs).toBeGreaterThan(0);
    expect(found.usage.memoryBytes).toBeGreaterThan(1_000_000);
  });

  it("is held to its share of the host, and let go again", () => {
    const bound = String(700 * 1024 * 1024);
    expect(found.bounded).toEqual({ memory: bound, swap: bound, tasks: "300" });
    // Bounds are raised, never lowered.
    expect(found.raised).toEqual({ memory: String(800 * 1024 * 1024), tasks: "300" });
    expect(found.limited).toMatchObject({ cpu: "50000 100000", memory: String(512 * 1024 * 1024) });
    expect(Number(found.limited.weight)).toBeGreaterThan(100);
    expect(found.unlimited).toEqual({ cpu: "max 100000", memory: "max" });
  });

  it("opens its own new disk and nothing else", () => {
    expect(found.passwd).toMatch(/Could not open '\/etc\/passwd'/);
    expect(found.ownBefore).toMatch(/No such file/);
    expect(found.own).toBe("opened");
    expect(found.exit).toBe("stopped");
  });
});
