import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeFacts, NodeUsage } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import type { PveHandler, PveHandlers } from "@gpve/domain/request/handler.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SystemdPower } from "../../../infrastructure/host/power.ts";
import { EtcHosts } from "../../../infrastructure/host/etc-hosts.ts";
import { ResolvConf, formatResolvConf, parseResolvConf } from "../../../infrastructure/host/resolv-conf.ts";
import { SystemReport } from "../../../infrastructure/host/system-report.ts";
import { HostTimezone } from "../../../infrastructure/host/timezone.ts";
import { madeUpExec } from "../../../testing/made-up-host.ts";
import { createNodeHandlers } from "./node-handlers.ts";

const facts: NodeFacts = {
  hostname: "h",
  kernel: { sysname: "Linux", release: "6.1", version: "#1 SMP", machine: "x86_64" },
  osImage: "Debian",
  bootMode: "efi",
  secureBoot: true,
  bootId: "b",
  cpu: {
    model: "M",
    vendor: "V",
    sockets: 1,
    cores: 2,
    cpus: 4,
    mhz: "2000.000",
    flags: "vmx",
    hvm: true,
    userHz: 100,
  },
  memoryBytes: 8,
  disks: [],
  bridges: ["vmbr0"],
  gpus: [],
  cgroupVersion: 2,
  qemu: { version: "7.2", binary: "/q", machines: ["q35"] },
  accelerator: "tcg",
  capabilities: [
    { name: "zfs", available: false, detail: "not there", fix: "apt-get install -y zfsutils-linux" },
  ],
};
const usage: NodeUsage = {
  cpu: 0.25,
  wait: 0.1,
  loadavg: [0.1, 1, 12.345],
  memory: { total: 8, used: 4, free: 2, available: 4 },
  swap: { total: 2, used: 1, free: 1 },
  rootfs: { total: 10, used: 5, free: 5, avail: 4 },
  uptimeSeconds: 77,
  netIn: 1,
  netOut: 2,
};
const context = {
  signal: new AbortController().signal,
  log: { debug() {}, info() {}, warn() {}, error() {} },
} as unknown as RequestContext;

let dir = "";
let handlers: PveHandlers;
const exec = madeUpExec({ systemctl: "", uname: "Linux box" });
const at = (file: string): string => join(dir, file);
const call = async <K extends PveRouteKey>(
  route: K,
  params: Parameters<PveHandler<K>>[0],
): Promise<unknown> => (handlers[route] as PveHandler<K>)(params, context);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gpve-node-"));
  mkdirSync(at("zoneinfo/Europe"), { recursive: true });
  writeFileSync(at("zoneinfo/Europe/Vienna"), "");
  writeFileSync(at("resolv.conf"), "# mine\ndomain old\nnameserver 10.0.0.1\noptions edns0\n");
  exec.calls.length = 0;
  handlers = createNodeHandlers({
    clock: new FakeClock(Date.UTC(2026, 6, 1)),
    facts: () => facts,
    usage: () => Promise.resolve(usage),
    ksmShared: () => Promise.resolve(4_096),
    statistics: { rows: (timeframe, cf) => [{ time: timeframe === "hour" && cf === "AVERAGE" ? 1 : 2 }] },
    dns: new ResolvConf(at("resolv.conf")),
    hosts: new EtcHosts(at("hosts")),
    time: new HostTimezone({
      timezone: at("timezone"),
      localtime: at("localtime"),
      zoneinfo: at("zoneinfo"),
    }),
    power: new SystemdPower({ exec, hasSystemd: () => true, ownsMachine: () => true }),
    report: new SystemReport({ exec, node: "n1", version: "1", facts: () => facts }),
  });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("node methods", () => {
  test("status has the types that clients of PVE expect, and our capabilities", async () => {
    expect(await call("GET /nodes/{node}/status", { node: "n1" })).toMatchObject({
      uptime: 77,
      idle: 0,
      loadavg: ["0.10", "1.00", "12.35"],
      kversion: "Linux 6.1 #1 SMP",
      "boot-info": { mode: "efi", secureboot: true },
      cpuinfo: { cpus: 4, hvm: "1", user_hz: 100, mhz: "2000.000" },
      memory: { total: 8, used: 4, free: 2, available: 4 },
      ksm: { shared: 4_096 },
      pveversion: expect.stringMatching(/^pve-manager\/9\./),
      gpve: { accelerator: "tcg", qemu: "7.2", capabilities: [{ name: "zfs", fix: expect.any(String) }] },
    });
  });

  test("version and statistics", async () => {
    expect(await call("GET /nodes/{node}/version", { node: "n1" })).toHaveProperty("repoid");
    expect(await call("GET /nodes/{node}/rrddata", { node: "n1", timeframe: "hour" })).toEqual([{ time: 1 }]);
    expect(await call("GET /nodes/{node}/rrddata", { node: "n1", timeframe: "hour", cf: "MAX" })).toEqual([
      { time: 2 },
    ]);
  });

  test("time follows the zone, which can be set to one that exists", async () => {
    const time = Date.UTC(2026, 6, 1) / 1_000;
    expect(await call("GET /nodes/{node}/time", { node: "n1" })).toEqual({
      timezone: "UTC",
      time,
      localtime: time,
    });
    await call("PUT /nodes/{node}/time", { node: "n1", timezone: "Europe/Vienna" });
    expect(await call("GET /nodes/{node}/time", { node: "n1" })).toEqual({
      timezone: "Europe/Vienna",
      time,
      localtime: time + 7_200,
    });
    expect(readlinkSync(at("localtime"))).toBe(at("zoneinfo/Europe/Vienna"));
    rmSync(at("timezone"));
    expect(await call("GET /nodes/{node}/time", { node: "n1" })).toMatchObject({ timezone: "Europe/Vienna" });
    for (const timezone of ["Mars/Base", "../resolv.conf", "Europe", ""]) {
      await expect(call("PUT /nodes/{node}/time", { node: "n1", timezone })).rejects.toMatchObject({
        pveStatus: 400,
        errors: { timezone: "No such timezone" },
      });
    }
    writeFileSync(at("timezone"), "Own/Zone\n");
    expect(await call("GET /nodes/{node}/time", { node: "n1" })).toMatchObject({
      timezone: "Own/Zone",
      localtime: time,
    });
  });

  test("name servers are read and replaced, other settings and links stay", async () => {
    symlinkSync(at("resolv.conf"), at("link"));
    const dns = new ResolvConf(at("link"));
    expect(await dns.read()).toEqual({ search: "old", dns1: "10.0.0.1" });
    await call("PUT /nodes/{node}/dns", {
      node: "n1",
      search: "example.org",
      dns1: "10.0.0.2",
      dns3: "10.0.0.3",
    });
    expect(readFileSync(at("resolv.conf"), "utf8")).toBe(
      "search example.org\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n# mine\noptions edns0\n",
    );
    expect(await call("GET /nodes/{node}/dns", { node: "n1" })).toEqual({
      search: "example.org",
      dns1: "10.0.0.2",
      dns2: "10.0.0.3",
    });
    await dns.write({ search: "x" });
    expect(existsSync(at("link"))).toBe(true);
    expect(readFileSync(at("resolv.conf"), "utf8")).toContain("search x\n");
    await expect(new ResolvConf(at("no/such/folder")).write({})).rejects.toThrow(/cannot write/);
  });

  test("the hosts file is read and replaced, unless somebody else changed it", async () => {
    const get = () => call("GET /nodes/{node}/hosts", { node: "n1" });
    const empty = { data: "", digest: "da39a3ee5e6b4b0d3255bfef95601890afd80709" };
    expect(await get()).toEqual(empty);
    const data = "127.0.0.1 localhost\n";
    expect(await call("POST /nodes/{node}/hosts", { node: "n1", data, digest: empty.digest })).toBeNull();
    expect(readFileSync(at("hosts"), "utf8")).toBe(data);
    expect(await get()).toMatchObject({ data });
    const late = call("POST /nodes/{node}/hosts", { node: "n1", data: "x", digest: empty.digest });
    await expect(late).rejects.toThrow("detected modified configuration - file changed by other user?");
    expect(await call("POST /nodes/{node}/hosts", { node: "n1", data: "" })).toBeNull();
  });

  test("any resolv.conf that is written is read back the same", () => {
    const word = fc.stringMatching(/^[a-z0-9.:]{1,12}$/);
    fc.assert(
      fc.property(
        word,
        fc.array(word, { minLength: 1, maxLength: 3 }),
        fc.string(),
        (search, servers, old) => {
          const [dns1 = "", dns2, dns3] = servers;
          const settings = {
            search,
            dns1,
            ...given({ dns2, dns3 }),
          };
          expect(parseResolvConf(formatResolvConf(settings, old))).toEqual(settings);
        },
      ),
    );
  });

  test("power commands go to systemd, or are refused with the reason", async () => {
    await call("POST /nodes/{node}/status", { node: "n1", command: "reboot" });
    await call("POST /nodes/{node}/status", { node: "n1", command: "shutdown" });
    expect(exec.calls).toEqual(["systemctl reboot", "systemctl poweroff"]);
    const guest = new SystemdPower({ exec, ownsMachine: () => false });
    await expect(guest.run("reboot")).rejects.toThrow(/network namespace/);
    const bare = new SystemdPower({ exec, hasSystemd: () => false, ownsMachine: () => true });
    await expect(bare.run("shutdown")).rejects.toThrow(/systemd does not run/);
    // On the machine of the test itself: done by the made-up systemctl, or refused for a good reason.
    const here = new SystemdPower({ exec });
    await here.run("reboot").catch((err: unknown) => expect(String(err)).toMatch(/cannot reboot/));
  });

  test("the report shows capabilities and says which commands failed", async () => {
    const text = String(await call("GET /nodes/{node}/report", { node: "n1" }));
    expect(text).toContain("NO  zfs: not there\n      fix: apt-get install -y zfsutils-linux");
    expect(text).toContain("# uname -a\nLinux box\n");
    expect(text).toContain("(cannot run lscpu: it is not installed)");
    const stopped = new SystemReport({ exec, node: "n", version: "1", facts: () => facts });
    await expect(
      stopped.text(AbortSignal.abort(new AppError("operation.cancelled", "gone"))),
    ).rejects.toThrow("gone");
  });
});
