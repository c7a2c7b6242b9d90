// Law 7: told over QMP to open what is not its own, a guest gets an error, while its own new disk works.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests, processesOf } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED guest confinement: ${missing}`);

describe.skipIf(missing !== undefined)("a confined guest", () => {
  let world: GuestWorld;
  let guest: QemuProcess;
  let otherDisk: string;

  beforeAll(async () => {
    world = await guestWorld();
    const guests = world.guests();
    otherDisk = world.disk("other.raw", "halt");
    guest = await guests.startQemu(bootable("100", world.disk("100.raw", "halt"), { note: { vmid: 100 } }));
    await guests.startQemu(bootable("101", otherDisk));
  });

  afterAll(async () => {
    await world?.clean();
  });

  const add = (path: string, node: string): Promise<unknown> =>
    guest.qmp.execute("blockdev-add", {
      driver: "raw",
      "node-name": node,
      "read-only": true,
      file: { driver: "file", filename: path },
    });

  it("runs under a uid and cgroup of its own, without root's rights", () => {
    const status = readFileSync(`/proc/${guest.pid}/status`, "utf8");
    const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
    expect(uid).toBeGreaterThanOrEqual(0x4000_0000);
    expect(/^CapEff:\s+0+$/m.test(status)).toBe(true);
    expect(/^NoNewPrivs:\s+1$/m.test(status)).toBe(true);
    expect(/^Seccomp:\s+2$/m.test(status)).toBe(true);
    expect(readFileSync(`/proc/${guest.pid}/cgroup`, "utf8")).toContain(
      `/gpve-${world.data.instanceId}/guest-100`,
    );
    expect(guest.usage().cpuNs).toBeGreaterThan(0);
    expect(guest.usage().memoryBytes).toBeGreaterThan(1_000_000);
  });

  it("cannot open another guest's disk, the store, credentials or host files", async () => {
    for (const folder of ["server", "secrets", "pki", "agent"])
      writeFileSync(world.data.file(folder, "private"), "x".repeat(512), { mode: 0o666 });
    const forbidden = [
      otherDisk,
      world.data.file("server", "private"),
      world.data.file("secrets", "private"),
      world.data.file("pki", "private"),
      world.data.file("instance.json"),
      world.data.file("run", "guests", "100", "guest.json"),
      world.data.file("run", "guests", "101", "log"),
      "/etc/passwd",
      "/etc/shadow",
      "/etc/hostname",
      "/proc/1/environ",
      "/sys/class/dmi/id/product_uuid",
      "/usr/bin/env",
      `/proc/${process.pid}/cwd/package.json`,
    ];
    for (const [index, path] of forbidden.entries()) {
      await expect(add(path, `bad${index}`), path).rejects.toMatchObject({ code: "qmp.failed" });
    }
    const refused = { code: "qmp.failed" };
    const outside = "/var/tmp/gpve-owned";
    await expect(guest.qmp.execute("screendump", { filename: outside })).rejects.toMatchObject(refused);
    await expect(
      guest.qmp.execute("chardev-add", { id: "c", backend: { type: "file", data: { out: outside } } }),
    ).rejects.toMatchObject(refused);
    await expect(
      guest.qmp.execute("object-add", {
        "qom-type": "memory-backend-file",
        id: "m",
        size: 4096,
        "mem-path": "/etc/passwd",
      }),
    ).rejects.toMatchObject(refused);
    expect(existsSync(outside)).toBe(false);
    await expect(
      guest.qmp.execute("human-monitor-command", { "command-line": "logfile /etc/gpve-owned" }),
    ).resolves.not.toBe("");
    expect(existsSync("/etc/gpve-owned")).toBe(false);
  });

  it("gets its own new disk while it runs, and loses it again", async () => {
    const path = world.disk("100-new.raw", "halt");
    await expect(add(path, "new")).rejects.toThrow("No such file");
    await guest.allowFile({ path, access: "rw" });
    await guest.qmp.execute("blockdev-add", {
      driver: "raw",
      "node-name": "new",
      file: { driver: "file", filename: path },
    });
    await guest.qmp.execute("device_add", { driver: "virtio-scsi-pci", id: "scsihw0" });
    await guest.qmp.execute("device_add", { driver: "scsi-hd", id: "scsi1", bus: "scsihw0.0", drive: "new" });
    await unplugDevice(guest.qmp, "scsi1");
    await guest.qmp.execute("blockdev-del", { "node-name": "new" });
    await guest.forbidFile(path);
    await expect(add(path, "new")).rejects.toThrow("No such file");
    expect(statSync(path).uid).toBe(statSync(join(guest.ioFolder)).uid);
  });

  it("reaches no service of the host, unless it is said to need the host's network", async () => {
    const service = createServer();
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    const { port } = service.address() as AddressInfo;
    const nbd = {
      driver: "nbd",
      "node-name": "service",
      server: { type: "inet", host: "127.0.0.1", port: String(port) },
    };
    await expect(guest.qmp.execute("blockdev-add", nbd)).rejects.toThrow("Failed to connect");
    const host = await world
      .guests()
      .startQemu(bootable("102", world.disk("102.raw", "halt"), { hostNetwork: true }));
    const met = new Promise((resolve) => service.once("connection", resolve));
    host.qmp.execute("blockdev-add", nbd).catch(() => "it is no NBD server");
    await met;
    await host.kill();
    service.close();
  });

  it("reads a shared image but cannot write to it", async () => {
    const path = world.disk("base.raw", "halt");
    await guest.allowFile({ path, access: "ro" });
    await add(path, "base");
    await guest.qmp.execute("blockdev-del", { "node-name": "base" });
    await expect(
      guest.qmp.execute("blockdev-add", {
        driver: "raw",
        "node-name": "base",
        file: { driver: "file", filename: path },
      }),
    ).rejects.toMatchObject({ code: "qmp.failed" });
  });

  it("loses a file that it was given twice, first to read and then to write", async () => {
    const path = world.disk("twice.raw", "halt");
    await guest.allowFile({ path, access: "ro" });
    await guest.allowFile({ path, access: "rw" });
    await add(path, "twice");
    await guest.qmp.execute("blockdev-del", { "node-name": "twice" });
    await guest.forbidFile(path);
    await expect(add(path, "twice")).rejects.toThrow("No such file");
  });

  it("is ended when it takes more memory than it may, however it got hold of its program", async () => {
    const runaway = await world.guests().start({
      id: "103-tpm",
      label: "runaway",
      program: "/usr/bin/tail",
      args: ["/dev/zero"],
      files: [],
      bounds: { memoryBytes: 64 * 1024 * 1024, tasks: 16 },
    });
    expect(await runaway.exited).toMatchObject({ cause: "killed", signal: 9, outOfMemory: true });
  });

  it("has no more processes and threads than it may", async () => {
    const bomb = await world.guests().start({
      id: "104-fs0",
      label: "runaway",
      program: "/usr/bin/bash",
      args: [
        "-c",
        "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do /usr/bin/sleep 60 & done; done; wait",
      ],
      files: [{ path: "/usr/bin/sleep", access: "ro", owned: false }],
      bounds: { memoryBytes: 512 * 1024 * 1024, tasks: 20 },
    });
    const group = new RegExp(`pids:(.*)$`, "m").exec(readFileSync(`/proc/${bomb.pid}/cgroup`, "utf8"))?.[1];
    const folder = existsSync("/sys/fs/cgroup/pids") ? `/sys/fs/cgroup/pids${group ?? ""}` : undefined;
    if (folder !== undefined) {
      await expect.poll(() => Number(readFileSync(join(folder, "pids.current"), "utf8"))).toBe(20);
      expect(readFileSync(join(folder, "pids.events"), "utf8")).toMatch(/^max [1-9]/);
    }
    // Nothing that it started outlives it.
    const sleepers = (): number => processesOf("/usr/bin/sleep\0" + "60\0").length;
    if (folder !== undefined) await expect.poll(sleepers).toBe(19);
    await bomb.kill();
    await expect.poll(sleepers).toBe(0);
  });

  it("changes its share of the host while it runs", () => {
    guest.setLimits({ cpuUnits: 200, cpuLimit: 0.5, memoryMaxBytes: 512 * 1024 * 1024 });
    expect(limitsOf(guest.pid)).toEqual({
      share: "200",
      quota: "50000",
      memory: 512 * 1024 * 1024,
      swap: 512 * 1024 * 1024,
    });
    // Up, down and away: version 1 wants memory and swap set in the right order.
    for (const mib of [700, 300, 900]) guest.setLimits({ memoryMaxBytes: mib * 1024 * 1024 });
    expect(limitsOf(guest.pid)).toMatchObject({ memory: 900 * 1024 * 1024, swap: 900 * 1024 * 1024 });
    guest.setLimits({ cpuUnits: 0, cpuLimit: 0, memoryMaxBytes: 0 });
    expect(limitsOf(guest.pid)).toMatchObject({
      share: expect.stringMatching(/^(100|1024)$/) as string,
      quota: expect.stringMatching(/^(max|-1)$/) as string,
    });
    expect(limitsOf(guest.pid).memory).toBeGreaterThan(2 ** 60);
  });
});

/** As the kernel has them, on either version of cgroups. */
function limitsOf(pid: number): { share: string; quota: string; memory: number; swap: number } {
  const groups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  const read = (controller: string, one: string, two: string): string => {
    const first = new RegExp(`^\\d+:(?:[^:]*,)?${controller}(?:,[^:]*)?:(.*)$`, "m").exec(groups)?.[1];
    const file =
      first === undefined
        ? join("/sys/fs/cgroup", /^0::(.*)$/m.exec(groups)?.[1] ?? "", two)
        : join("/sys/fs/cgroup", controller, first, one);
    return readFileSync(file, "utf8").trim();
  };
  const amount = (text: string): number => (text === "max" ? Number.POSITIVE_INFINITY : Number(text));
  const memory = amount(read("memory", "memory.limit_in_bytes", "memory.max"));
  const swap = amount(read("memory", "memory.memsw.limit_in_bytes", "memory.swap.max"));
  const isTogether = /^\d+:(?:[^:]*,)?memory/m.test(groups);
  return {
    share: read("cpu", "cpu.shares", "cpu.weight"),
    quota: read("cpu", "cpu.cfs_quota_us", "cpu.max").split(" ")[0] ?? "",
    memory,
    swap: isTogether ? swap - memory : swap,
  };
}
