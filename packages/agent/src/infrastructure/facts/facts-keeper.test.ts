import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { madeUpExec, madeUpFiles } from "../../testing/made-up-host.ts";
import { FactsKeeper } from "./facts-keeper.ts";
import { probeAccelerator, probeFirmware } from "./guest-probe.ts";
import { hostFiles } from "./host-files.ts";
import { UsageSampler } from "./usage-sampler.ts";

const quiet: RequestLogger = { debug() {}, info() {}, warn() {}, error() {} };
const qemu = "/usr/bin/qemu-system-x86_64";
const files = {
  [qemu]: "",
  "/dev/kvm": "",
  "/proc/sys/kernel/random/boot_id": "boot-1\n",
  "/proc/cpuinfo": "processor : 0\nmodel name : X\n",
  "/proc/meminfo": "MemTotal: 4 kB\n",
  "/sys/block/sda/size": "8",
  "/sys/block/sda/queue/rotational": "1",
  "/sys/block/loop0/size": "8",
  "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
  "/sys/bus/pci/devices/0000:01:00.0/class": "0x030000",
  "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de",
  "/sys/bus/pci/devices/0000:01:00.0/device": "0x20b0",
  "/sys/bus/pci/devices/0000:01:00.0/uevent": "DRIVER=vfio-pci\n",
  "/sys/bus/pci/devices/0000:02:00.0/class": "0x020000",
};
const slow = (): never => {
  throw new AppError("request.timeout", "qemu did not finish within 3000 ms");
};
const tools = {
  [`${qemu} --version`]: "QEMU emulator version 7.2.1",
  [`${qemu} -machine help`]: "Supported:\nq35 x\n",
  "timeout --signal=KILL": "",
  "ip -j":
    '[{"ifname":"vmbr1","linkinfo":{"info_kind":"bridge"}},{"ifname":"eth0"},{"ifname":"vmbr0","linkinfo":{"info_kind":"bridge"}}]',
  "getconf CLK_TCK": "250\n",
  "qemu-img --version": "qemu-img version 7\nmore",
};

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-facts-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const lacking = (name: string) => async () => ({ name, available: false, detail: "not here", fix: "none" });
const others = { confinement: lacking("confinement"), kata: lacking("kata") };

const kept = () => ({ folder, triedFile: join(folder, "tried-guests.json") });

const keeperWith = (programs: Parameters<typeof madeUpExec>[0], host: Record<string, string> = files) => {
  const exec = madeUpExec(programs);
  return {
    exec,
    keeper: new FactsKeeper({ files: madeUpFiles(host), exec, log: quiet, ...kept(), ...others }),
  };
};

describe("node facts", () => {
  test("Kata counts only where guests really run under KVM", async () => {
    const kata = async () => ({ name: "kata", available: true, detail: "its shim" });
    const look = async (programs: Parameters<typeof madeUpExec>[0]) => {
      const own = mkdtempSync(join(folder, "own-"));
      const exec = madeUpExec(programs);
      const keeper = new FactsKeeper({
        files: madeUpFiles(files),
        exec,
        log: quiet,
        folder: own,
        triedFile: join(own, "tried-guests.json"),
        ...others,
        kata,
      });
      await keeper.load();
      await keeper.refresh();
      return keeper.facts().facts.capabilities.find(({ name }) => name === "kata");
    };
    expect(await look(tools)).toMatchObject({ available: true, detail: "its shim" });
    expect(await look({ ...tools, "timeout --signal=KILL": slow })).toMatchObject({
      available: false,
      detail: expect.stringContaining("KVM does not work") as string,
    });
  });

  test("nothing is said of Kata before it is known whether KVM works", async () => {
    const kata = async () => ({ name: "kata", available: true, detail: "its shim" });
    const exec = madeUpExec({ ...tools, "timeout --signal=KILL": () => new Promise(() => undefined) });
    const keeper = new FactsKeeper({
      files: madeUpFiles(files),
      exec,
      log: quiet,
      ...kept(),
      ...others,
      kata,
    });
    await keeper.load();
    void keeper.refresh();
    const names = () => keeper.facts().facts.capabilities.map(({ name }) => name);
    await expect.poll(names).toContain("qemu-img");
    expect(names()).not.toContain("kata");
  });

  test("devices for containers are told before anything is tried, and again when they have changed", async () => {
    let devices = [{ kind: "example.com/gpu", count: 1 }];
    const keeper = new FactsKeeper({
      files: madeUpFiles(files),
      exec: madeUpExec(tools),
      log: quiet,
      ...kept(),
      ...others,
      devices: async () => (devices.length === 0 ? undefined : devices),
    });
    await keeper.load();
    expect(keeper.facts().facts.devices).toEqual(devices);
    devices = [];
    await keeper.refreshBridges();
    expect(keeper.facts().facts).not.toHaveProperty("devices");
    devices = [{ kind: "example.com/gpu", count: 2 }];
    await keeper.refresh();
    expect(keeper.facts().facts.devices).toEqual(devices);
  });

  test("files tell at once, probes follow and are kept for the next start", async () => {
    const { keeper, exec } = keeperWith(tools);
    expect(() => keeper.facts()).toThrow(/before load/);
    await keeper.load();
    expect(keeper.facts().facts).toMatchObject({
      bootId: "boot-1",
      bootMode: "efi",
      secureBoot: true,
      accelerator: "none",
      memoryBytes: 4_096,
      disks: [{ name: "sda", sizeBytes: 4_096, rotational: true, model: "" }],
      capabilities: [{ name: "kvm", available: false, detail: "is being tried" }],
    });
    expect(exec.calls).toEqual([]);
    await keeper.refresh();
    const { facts, generation } = keeper.facts();
    expect(generation).toBeGreaterThan(1);
    expect(facts).toMatchObject({
      accelerator: "kvm",
      qemu: { version: "7.2.1", machines: ["q35"] },
      bridges: ["vmbr0", "vmbr1"],
      gpus: [{ uuid: "0000:01:00.0", model: "0x10de:0x20b0", driver: "vfio-pci" }],
      cpu: { userHz: 250 },
    });
    const calls = exec.calls.length;
    await keeper.refreshBridges();
    expect(exec.calls.slice(calls)).toEqual(["ip -j -d address show"]);
    const again = keeperWith(tools);
    await again.keeper.load();
    expect(again.keeper.facts().facts.accelerator).toBe("kvm");
    await again.keeper.refresh();
    expect(again.exec.calls.some((line) => line.includes("-nodefaults"))).toBe(false);
    const before = again.keeper.facts().generation;
    await again.keeper.refresh();
    expect(again.keeper.facts().generation).toBe(before);
    expect(readdirSync(folder)).toEqual(["tried-guests.json"]);
  });

  test("guests are tried while the rest is looked at, once for everybody who waits", async () => {
    const { keeper, exec } = keeperWith({ ...tools, "getconf CLK_TCK": () => new Promise(() => undefined) });
    await keeper.load();
    void keeper.refresh();
    await Promise.all([keeper.guestsTried(), keeper.guestsTried()]);
    expect(keeper.facts().facts.accelerator).toBe("kvm");
    await keeper.guestsTried();
    expect(exec.calls.filter((line) => line.startsWith("timeout"))).toHaveLength(2);
  });

  test("a new boot or another QEMU is tried again, and so is a broken cache", async () => {
    const first = keeperWith(tools);
    await first.keeper.load();
    await first.keeper.refresh();
    const rebooted = keeperWith(tools, { ...files, "/proc/sys/kernel/random/boot_id": "boot-2" });
    await rebooted.keeper.load();
    expect(rebooted.keeper.facts().facts.accelerator).toBe("none");
    writeFileSync(join(folder, "tried-guests.json"), "{");
    const broken = keeperWith(tools);
    await broken.keeper.load();
    expect(broken.keeper.facts().facts.accelerator).toBe("none");
  });

  test("guests are tried again once there is a /dev/kvm, and where none ran at all", async () => {
    const tries = async (programs: Parameters<typeof madeUpExec>[0], host: Record<string, string>) => {
      const { keeper, exec } = keeperWith(programs, host);
      await keeper.load();
      await keeper.guestsTried();
      return exec.calls.filter((line) => line.startsWith("timeout")).length;
    };
    const { "/dev/kvm": _, ...without } = files;
    expect(await tries(tools, without)).toBe(1);
    expect(await tries(tools, without)).toBe(0);
    expect(await tries({ ...tools, "timeout --signal=KILL": slow }, files)).toBe(2);
    expect(await tries(tools, files)).toBe(2);
    expect(await tries(tools, files)).toBe(0);
  });

  test("what cannot be kept is known all the same", async () => {
    const said: string[] = [];
    writeFileSync(join(folder, "file"), "");
    const keeper = new FactsKeeper({
      files: madeUpFiles(files),
      exec: madeUpExec(tools),
      log: { ...quiet, warn: (_, text) => said.push(text ?? "") },
      folder,
      triedFile: join(folder, "file", "tried-guests.json"),
      ...others,
    });
    await keeper.load();
    await keeper.guestsTried();
    expect(keeper.facts().facts.accelerator).toBe("kvm");
    expect(said).toContain("what running guests showed is not kept and will be tried again");
  });

  test("KVM that is too slow leaves TCG, with the reason and a fix", async () => {
    const { keeper, exec } = keeperWith({
      ...tools,
      "timeout --signal=KILL": () => (exec.calls.at(-1)?.includes("accel=kvm") === true ? slow() : ""),
    });
    await keeper.load();
    await keeper.refresh();
    const { facts } = keeper.facts();
    expect(facts.accelerator).toBe("tcg");
    expect(facts.capabilities.find(({ name }) => name === "kvm")).toMatchObject({
      available: false,
      detail: expect.stringContaining("50 million instructions"),
      fix: expect.stringContaining("TCG"),
    });
  });

  test("what is missing says which package brings it", async () => {
    const { keeper } = keeperWith({}, {});
    await keeper.load();
    await keeper.refresh();
    const { facts } = keeper.facts();
    expect(facts.accelerator).toBe("none");
    expect(facts.qemu).toBeUndefined();
    expect(facts.capabilities.every(({ available, fix }) => !available && fix !== undefined)).toBe(true);
    expect(facts.capabilities.find(({ name }) => name === "lvm")?.fix).toBe("apt-get install -y lvm2");
  });

  test("without /dev/kvm the fix is in the firmware", async () => {
    const { "/dev/kvm": _gone, ...host } = files;
    const { keeper } = keeperWith(
      { ...tools, "dmsetup targets": "striped v1\n", "cat /proc/filesystems": "nodev nfs4\n" },
      host,
    );
    await keeper.load();
    await keeper.refresh();
    const find = (wanted: string) => keeper.facts().facts.capabilities.find(({ name }) => name === wanted);
    expect(find("kvm")?.fix).toMatch(/firmware/);
    expect(find("dm-thin")).toMatchObject({ available: false, fix: expect.stringContaining("dm_thin_pool") });
    expect(find("nfs-kernel")).toMatchObject({ available: true });
    expect(find("qemu-img")).toMatchObject({ available: true, detail: "qemu-img version 7" });
  });
});

describe("the guest probe", () => {
  test("is firmware that jumps from the reset vector to its code", () => {
    const rom = probeFirmware();
    expect(rom).toHaveLength(65_536);
    const jump = rom.subarray(0xfff0, 0xfff3);
    const target = (0xfff3 + ((jump[1] ?? 0) | ((jump[2] ?? 0) << 8))) & 0xffff;
    expect([jump[0], target]).toEqual([0xe9, 0xf000]);
  });

  test("tells what QEMU said when no guest runs, and cleans up", async () => {
    const exec = madeUpExec({
      timeout: () => {
        throw new AppError(
          "internal.error",
          "qemu failed with exit code 1: Could not access KVM kernel module",
        );
      },
    });
    const result = await probeAccelerator("kvm", { exec, qemu: "qemu", folder });
    expect(result).toEqual({
      works: false,
      detail: "no guest runs under kvm: qemu failed with exit code 1: Could not access KVM kernel module",
    });
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe("the usage sampler", () => {
  test("gives shares since the last sample, and the same ones for calls in quick succession", async () => {
    const clock = new FakeClock();
    const host: Record<string, string> = {
      "/proc/stat": "cpu 50 0 0 50 0",
      "/proc/loadavg": "1 2 3",
      "/proc/uptime": "7.5 1",
    };
    const sampler = new UsageSampler({ files: madeUpFiles(host), clock });
    expect(await sampler.sample()).toMatchObject({
      cpu: 0.5,
      loadavg: [1, 2, 3],
      uptimeSeconds: 7,
      rootfs: { total: 100, used: 60, free: 40, avail: 30 },
    });
    host["/proc/stat"] = "cpu 150 0 0 50 0";
    expect((await sampler.sample()).cpu).toBe(0.5);
    await clock.advance(2_000);
    expect((await sampler.sample()).cpu).toBe(1);
  });

  test("works on this very host", async () => {
    const usage = await new UsageSampler({ files: hostFiles, clock: new FakeClock() }).sample();
    expect(usage.memory.total).toBeGreaterThan(0);
    expect(usage.rootfs.total).toBeGreaterThan(usage.rootfs.free);
    expect(await hostFiles.mtime("/nowhere")).toBeUndefined();
    expect(await hostFiles.readBytes("/nowhere")).toBeUndefined();
    expect(await hostFiles.list("/nowhere")).toEqual([]);
    expect(await hostFiles.mtime("/proc")).toBeGreaterThan(0);
  });
});
