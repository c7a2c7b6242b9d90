import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startChild } from "@gpve/kit/testing/child.ts";
import { GuestCgroups } from "./guest-cgroups.ts";
import { hostHierarchies, parseHierarchies } from "./hierarchies.ts";

describe("cgroup hierarchies", () => {
  it("are one per controller in version 1, also beside an empty version 2", () => {
    const found = parseHierarchies(
      [
        "30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755",
        "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
        "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd",
        "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "34 30 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer",
        "",
      ].join("\n"),
    );
    expect(found.version).toBe(1);
    expect([...found.v1]).toEqual([
      ["systemd", "/sys/fs/cgroup/systemd"],
      ["cpu", "/sys/fs/cgroup/cpu,cpuacct"],
      ["cpuacct", "/sys/fs/cgroup/cpu,cpuacct"],
    ]);
  });

  it("are one in version 2", () => {
    const found = parseHierarchies("30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
    expect(found).toEqual({ version: 2, v1: new Map(), v2: "/sys/fs/cgroup" });
    expect([1, 2]).toContain(hostHierarchies().version);
  });
});

// A plain folder stands in for the kernel's: which files are written is what matters.
describe("a guest's cgroup", () => {
  let mount: string;
  beforeEach(() => {
    mount = mkdtempSync(join(tmpdir(), "gpve-cgroup-"));
    writeFileSync(join(mount, "cgroup.controllers"), "cpu io memory\n");
  });
  afterEach(() => rmSync(mount, { recursive: true, force: true }));

  const fill = (files: Readonly<Record<string, string>>): void => {
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(mount, "gpve-abcdef/guest-100", name), text);
  };
  const read = (name: string): string => readFileSync(join(mount, "gpve-abcdef/guest-100", name), "utf8");

  it("is set and read as version 2 has it", () => {
    mkdirSync(join(mount, "gpve-abcdef"));
    writeFileSync(join(mount, "gpve-abcdef/cgroup.controllers"), "cpu memory\n");
    const groups = new GuestCgroups("abcdef", { version: 2, v1: new Map(), v2: mount });
    expect(groups.create("100")).toEqual([join(mount, "gpve-abcdef/guest-100/cgroup.procs")]);
    expect(groups.holdFiles()).toEqual([join(mount, "gpve-abcdef/supervisors/cgroup.procs")]);
    fill({ "io.weight": "", "memory.swap.max": "max\n" });
    groups.apply("100", {
      cpuUnits: 20_000,
      cpuLimit: 1.5,
      memoryMaxBytes: 1_000,
      ioWeight: 50,
      io: [{ device: "8:0", readBytesPerSecond: 5 }],
    });
    expect(read("cpu.weight")).toBe("10000");
    expect(read("cpu.max")).toBe("150000 100000");
    expect(read("memory.max")).toBe("1000");
    expect(read("memory.swap.max")).toBe("1000");
    expect(read("io.weight")).toBe("50");
    expect(read("io.max")).toBe("8:0 rbps=5 wbps=max");
    groups.apply("100", { cpuUnits: 0, cpuLimit: 0, memoryMaxBytes: 0 });
    expect(read("cpu.weight")).toBe("100");
    expect(read("cpu.max")).toBe("max 100000");
    expect([read("memory.max"), read("memory.swap.max")]).toEqual(["max", "max"]);
    fill({ "pids.max": "max\n" });
    expect(groups.bound("100", { memoryBytes: 700, tasks: 9 })).toEqual([]);
    expect([read("memory.max"), read("memory.swap.max"), read("pids.max")]).toEqual(["700", "700", "9"]);
    expect(groups.bound("100", { memoryBytes: 600, tasks: 8 })).toEqual([]);
    expect([read("memory.max"), read("memory.swap.max"), read("pids.max")]).toEqual(["700", "700", "9"]);
    expect(groups.bound("100", { cpus: 0.5 })).toEqual([]);
    expect(read("cpu.max")).toBe("50000 100000");
    fill({
      "cpu.stat": "usage_usec 7\nuser_usec 1\n",
      "memory.current": "900\n",
      "memory.stat": "anon 300\nshmem 20\n",
      "memory.events": "oom 1\noom_kill 2\n",
    });
    expect(groups.usage("100")).toEqual({ cpuNs: 7_000, memoryBytes: 900, memoryAnonBytes: 320 });
    fill({
      "cpu.pressure": "some avg10=1.50 avg60=0.00\nfull avg10=0.25 avg60=0.00\n",
      "memory.pressure": "some avg10=0.00 avg60=0.00\n",
    });
    expect(groups.pressure("100")).toEqual({ cpusome: 1.5, cpufull: 0.25, memorysome: 0 });
    expect(groups.oomKills("100")).toBe(2);
  });

  it("is set and read as version 1 has it", () => {
    const v1 = new Map(["cpu", "cpuacct", "memory", "blkio"].map((name) => [name, mount]));
    const groups = new GuestCgroups("abcdef", { version: 1, v1, v2: undefined });
    expect(groups.create("100")).toHaveLength(1);
    fill({ "blkio.bfq.weight": "" });
    groups.apply("100", {
      cpuUnits: 1024,
      cpuLimit: 2,
      memoryMaxBytes: 5,
      ioWeight: 100,
      io: [{ device: "8:0", writeBytesPerSecond: 9 }],
    });
    expect(read("cpu.shares")).toBe("1024");
    expect(read("cpu.cfs_quota_us")).toBe("200000");
    expect(read("blkio.bfq.weight")).toBe("100");
    expect(read("blkio.throttle.write_bps_device")).toBe("8:0 9");
    groups.apply("100", { cpuUnits: 0, cpuLimit: 0, memoryMaxBytes: 0 });
    expect(read("cpu.shares")).toBe("1024");
    expect(read("cpu.cfs_quota_us")).toBe("-1");
    expect(read("memory.limit_in_bytes")).toBe("-1");
    fill({
      "cpuacct.usage": "5\n",
      "memory.usage_in_bytes": "8",
      "memory.stat": "rss 3\n",
      "memory.oom_control": "oom_kill_disable 0\noom_kill 1\n",
    });
    expect(groups.usage("100")).toEqual({ cpuNs: 5, memoryBytes: 8, memoryAnonBytes: 3 });
    expect(groups.oomKills("100")).toBe(1);
  });

  it("says what the host cannot do, and reads nothing as nothing", () => {
    const groups = new GuestCgroups("abcdef", { version: 1, v1: new Map(), v2: undefined });
    expect(groups.create("100")).toEqual([]);
    expect(() => groups.apply("100", { cpuUnits: 1 })).toThrow("no cpu cgroup");
    expect(() => groups.apply("100", { ioWeight: 1 })).toThrow("cannot weigh");
    expect(groups.usage("100")).toEqual({ cpuNs: 0, memoryBytes: 0, memoryAnonBytes: 0 });
  });

  it("is emptied by force", async () => {
    const groups = new GuestCgroups("abcdef", { version: 1, v1: new Map([["cpu", mount]]), v2: undefined });
    groups.create("100");
    groups.killAll("100");
    const child = startChild("/usr/bin/sleep", ["100"]);
    fill({ "cgroup.procs": `${child.pid}\n`, "pids.max": "9" });
    groups.killAll("100");
    expect(await child.exited).toBe("SIGKILL");
    // Nothing is started in it any more, and where the kernel can do it by itself, it is asked to.
    expect(read("pids.max")).toBe("0");
    fill({ "cgroup.kill": "" });
    groups.killAll("100");
    expect(read("cgroup.kill")).toBe("1");
  });

  it("is removed, with the instance's own when nothing is left", async () => {
    const groups = new GuestCgroups("abcdef", { version: 1, v1: new Map([["cpu", mount]]), v2: undefined });
    groups.create("100");
    groups.holdFiles();
    await groups.remove("100");
    await groups.remove("100");
    groups.removeAll();
    expect(existsSync(join(mount, "gpve-abcdef"))).toBe(false);
    groups.create("101");
    writeFileSync(join(mount, "gpve-abcdef/guest-101/busy"), "");
    await expect(groups.remove("101")).rejects.toMatchObject({ code: "resource.busy" });
    expect(() => groups.apply("102", { cpuUnits: 5 })).toThrow("cannot set cpu.shares");
  });
});
