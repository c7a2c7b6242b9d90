// What a running guest's processes have of the host: network namespace, limits. Looked at from outside, by their pids.
import { existsSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, loginHeaders, startGpve } from "../support/gpve.ts";
import { uploadImage } from "../support/images.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { waitTask } from "../support/tasks.ts";
import { ownTable } from "../support/nft-owner.ts";
import { outsideHost } from "../support/outside-host.ts";
import { testBridge, type TestBridge } from "../support/test-bridge.ts";
import { processesOf } from "./guests/guest-world.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/bin/swtpm") ? [] : ["swtpm"]),
];
if (missing.length > 0) console.warn(`SKIPPED isolation of guests: needs ${missing.join(", ")}`);

const namespaceOf = (pid: number): string => readlinkSync(`/proc/${pid}/ns/net`);
const own = readlinkSync("/proc/self/ns/net");

describe.skipIf(missing.length > 0)("a running guest", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  let bridge: TestBridge;

  const run = async (path: string, params: Record<string, string | number> = {}): Promise<void> => {
    const answer = await api("POST", path, params);
    expect(answer.status, answer.text).toBe(200);
    expect(await waitTask(api, answer.data as string)).toMatchObject({ exitstatus: "OK" });
  };
  const vm = (vmid: number): string => `/nodes/${node}/qemu/${vmid}`;
  const current = async (vmid: number): Promise<Record<string, unknown>> =>
    (await api("GET", `${vm(vmid)}/status/current`)).data;
  const create = async (vmid: number, params: Record<string, string | number>): Promise<number> => {
    await run(`/nodes/${node}/qemu`, { vmid, memory: 64, ...params });
    await run(`${vm(vmid)}/status/start`);
    return Number((await current(vmid))["pid"]);
  };
  /** What makes a VM boot the tiny image. */
  const bootable = async (): Promise<Record<string, string | number>> => ({
    memory: 256,
    agent: 1,
    serial0: "socket",
    scsihw: "virtio-scsi-single",
    scsi0: `local:0,import-from=${await uploadImage(gpve, "tiny.qcow2")},format=qcow2`,
  });
  /** A guest on a busy host may take longer to let go of a card than it is waited for. */
  const unplug = (vmid: number, key: string): Promise<unknown> =>
    vi.waitFor(
      async () => {
        const answer = await api("PUT", `${vm(vmid)}/config`, { delete: key });
        expect(answer.status, answer.text).toBe(200);
      },
      { timeout: 150_000, interval: 1_000 },
    );
  const helper = (id: string): number => {
    const state = readFileSync(`${gpve.data}/run/guests/${id}/state`, "utf8");
    return (JSON.parse(state) as { pid: number }).pid;
  };
  const nft = async (...args: string[]): Promise<string> =>
    (await exec("nft", args, { okCodes: [0, 1] })).stdout;
  const filterTable = (): string =>
    `gpve_${(JSON.parse(readFileSync(`${gpve.data}/instance.json`, "utf8")) as { instanceId: string }).instanceId}`;
  const linksOf = async (pid: number): Promise<{ ifname: string; flags: string[] }[]> => {
    const { stdout } = await exec("nsenter", ["--target", String(pid), "--net", "ip", "-j", "link"]);
    return JSON.parse(stdout) as { ifname: string; flags: string[] }[];
  };
  const expectEmpty = async (pid: number): Promise<void> => {
    expect(namespaceOf(pid)).not.toBe(own);
    const links = (await linksOf(pid)).filter(({ flags }) => flags.includes("UP"));
    expect(links).toEqual([]);
    expect((await linksOf(pid)).map(({ ifname }) => ifname)).toContain("lo");
  };

  /** Other machines are reached, and nothing of this one; from here the guest's SSH is. */
  const expectOnlyOutward = async (path: string, sshPort: number): Promise<void> => {
    const outside = await outsideHost("said outside");
    const service = createServer((socket) => socket.end("said here"));
    await new Promise<void>((resolve) => service.listen(0, "0.0.0.0", resolve));
    const { port } = service.address() as AddressInfo;
    try {
      const ask = (address: string, at: number): Promise<string> =>
        runByAgent(api, path, "/bin/sh", "-c", `nc -w 4 ${address} ${at} </dev/null; echo ended`);
      expect(await ask(outside.address, outside.port)).toContain("said outside");
      expect(await ask("10.0.2.2", port)).not.toContain("said here");
      expect(await ask(outside.near, port)).not.toContain("said here");
      const banner = new Promise<string>((resolve) => {
        const socket = connect(sshPort, "127.0.0.1");
        socket.once("data", (chunk: Buffer) => {
          resolve(chunk.toString("utf8"));
          socket.destroy();
        });
        socket.once("close", () => resolve("closed"));
        socket.on("error", () => undefined);
      });
      expect(await banner).toContain("SSH-2.0");
    } finally {
      service.close();
      await outside.remove();
    }
  };

  beforeAll(async () => {
    bridge = await testBridge({ guestsFrom: 6100 });
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  });
  afterAll(async () => {
    await gpve?.stop();
    await bridge?.remove();
    expect(processesOf(gpve.data)).toEqual([]);
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("has an empty network namespace, its TPM too, with cards from the start and plugged later", async () => {
    const pid = await create(6100, {
      net0: `virtio,bridge=${bridge.name}`,
      tpmstate0: "local:1,version=v2.0",
      vga: "qxl",
      serial0: "socket",
    });
    await expectEmpty(pid);
    await expectEmpty(helper("6100-tpm"));
    expect((await api("PUT", `${vm(6100)}/config`, { net1: `virtio,bridge=${bridge.name}` })).status).toBe(
      200,
    );
    expect(existsSync("/sys/class/net/tap6100i1")).toBe(true);
    await expectEmpty(pid);
    await run(`${vm(6100)}/status/stop`);
  });

  test("is bounded in memory and tasks, above what it needs, and gets room for memory that comes later", async () => {
    const pid = await create(6104, {
      ...(await bootable()),
      memory: 1024,
      numa: 1,
      hotplug: "network,disk,usb,memory",
      balloon: 512,
      tpmstate0: "local:1,version=v2.0",
    });
    const bounds = (of: number): { memory: number; tasks: number } => {
      const groups = readFileSync(`/proc/${of}/cgroup`, "utf8");
      const two = /^0::(.+gpve-.+)$/m.exec(groups)?.[1];
      const read = (controller: string, one: string, other: string): number => {
        const group = new RegExp(`^\\d+:${controller}:(.+)$`, "m").exec(groups)?.[1] ?? "";
        const file = two === undefined ? `${controller}${group}/${one}` : `${two}/${other}`;
        return Number(readFileSync(`/sys/fs/cgroup/${file}`, "utf8"));
      };
      return {
        memory: read("memory", "memory.limit_in_bytes", "memory.max") / 1024 ** 2,
        tasks: read("pids", "pids.max", "pids.max"),
      };
    };
    const before = bounds(pid);
    expect(before.memory).toBeGreaterThan(1024 + 2048);
    expect(before.memory).toBeLessThan(1024 + 4096);
    expect(before.tasks).toBeLessThan(1_000);
    expect(bounds(helper("6104-tpm"))).toEqual({ memory: 256, tasks: 64 });
    await untilAgentAnswers(api, vm(6104));
    expect((await api("PUT", `${vm(6104)}/config`, { memory: 2048 })).status).toBe(200);
    expect(bounds(pid).memory).toBeGreaterThanOrEqual(before.memory + 1024);
    // The guest fills its memory, and lives.
    const filled =
      "mount -t tmpfs -o size=700m none /mnt && dd if=/dev/zero of=/mnt/f bs=1M count=600 2>/dev/null && umount /mnt && echo filled";
    expect(await runByAgent(api, vm(6104), "/bin/sh", "-c", filled)).toContain("filled");
    expect(await current(6104)).toMatchObject({ status: "running", pid });
    await run(`${vm(6104)}/status/stop`);
  });

  test("stays in the host's where `args` may need it", async () => {
    // Only root himself may say `args`, by a login.
    const byToken = api;
    api = apiOf(gpve.credentials, await loginHeaders(gpve.credentials));
    expect(namespaceOf(await create(6101, { args: "-name other" }))).toBe(own);
    api = byToken;
    await run(`${vm(6101)}/status/stop`);
  });

  test("does not start, and gets no new card, where the kernel takes no filter for firewall=1", async () => {
    const card = (last: number): string => `virtio=BC:24:11:00:08:0${last},bridge=${bridge.name}`;
    await create(6105, { net0: card(1) });
    const letGo = ownTable("bridge", filterTable());
    await expect.poll(() => nft("list", "tables", "bridge")).toContain(filterTable());
    const plugged = await api("PUT", `${vm(6105)}/config`, { net1: `${card(2)},firewall=1` });
    expect(existsSync("/sys/class/net/tap6105i1"), plugged.text).toBe(false);
    await run(`${vm(6105)}/status/stop`);
    expect((await api("PUT", `${vm(6105)}/config`, { net0: `${card(1)},firewall=1` })).status).toBe(200);
    const refused = await api("POST", `${vm(6105)}/status/start`);
    const { exitstatus } = await waitTask(api, refused.data as string);
    expect(exitstatus).toMatch(/^net0: firewall=1 cannot be kept.*or set firewall=0$/s);
    expect(await current(6105)).toMatchObject({ status: "stopped" });
    await letGo();
    await expect.poll(() => nft("list", "tables", "bridge")).not.toContain(filterTable());
    await run(`${vm(6105)}/status/start`);
    expect(await nft("list", "table", "bridge", filterTable())).toContain('"tap6105i0" . bc:24:11:00:08:01');
    await run(`${vm(6105)}/status/stop`);
    await expect.poll(() => nft("list", "tables", "bridge")).not.toContain(filterTable());
  });

  test("sends with its card's own MAC address only, where the card has firewall=1", async () => {
    const address = `10.${200 + (process.pid % 50)}.7`;
    const table = filterTable();
    await exec("ip", ["addr", "add", `${address}.1/24`, "dev", bridge.name]);
    const card = `virtio=BC:24:11:00:07:01,bridge=${bridge.name}`;
    await create(6103, {
      ...(await bootable()),
      net0: `${card},firewall=1`,
    });
    expect(String((await current(6103))["gpve-notes"])).toContain(
      "net0: firewall=1 keeps the card to its own MAC",
    );
    await untilAgentAnswers(api, vm(6103));
    const script = (text: string): Promise<string> => runByAgent(api, vm(6103), "/bin/sh", "-c", text);
    const pings = async (mac: string): Promise<boolean> => {
      const up = `ip link set eth0 down; ip link set eth0 address ${mac}; ip link set eth0 up; ip addr replace ${address}.9/24 dev eth0; sleep 1`;
      await exec("ip", ["neigh", "flush", "dev", bridge.name]);
      return (
        await script(`${up}; ping -c 2 -W 2 ${address}.1 >/dev/null && echo reached || echo lost`)
      ).includes("reached");
    };
    const foreign = "02:66:6f:72:65:69";
    expect(await pings("bc:24:11:00:07:01")).toBe(true);
    expect(await pings(foreign)).toBe(false);
    expect((await exec("bridge", ["fdb", "show", "br", bridge.name])).stdout).not.toContain(foreign);
    expect(await nft("list", "table", "bridge", table)).toMatch(/counter packets [1-9]\d* bytes \d+ drop/);
    // Switched off and on while it runs.
    expect((await api("PUT", `${vm(6103)}/config`, { net0: card })).status).toBe(200);
    expect(await pings(foreign)).toBe(true);
    expect((await api("PUT", `${vm(6103)}/config`, { net0: `${card},firewall=1` })).status).toBe(200);
    expect(await pings(foreign)).toBe(false);
    // A card that comes later has a filter of its own, which goes with it.
    const second = { net1: `virtio=BC:24:11:00:07:02,bridge=${bridge.name},firewall=1` };
    expect((await api("PUT", `${vm(6103)}/config`, second)).status).toBe(200);
    expect(await nft("list", "table", "bridge", table)).toContain('"tap6103i1" . bc:24:11:00:07:02');
    await unplug(6103, "net1");
    expect(await nft("list", "table", "bridge", table)).not.toContain("tap6103i1");
    // Somebody flushes the host's rules while no agent looks.
    await gpve.kill();
    await nft("delete", "table", "bridge", table);
    gpve = await gpve.restart();
    api = apiOf(gpve.credentials);
    expect(await nft("list", "table", "bridge", table)).toContain('"tap6103i0" . bc:24:11:00:07:01');
    expect(await pings(foreign)).toBe(false);
    await run(`${vm(6103)}/status/stop`);
    await expect.poll(() => nft("list", "tables", "bridge")).not.toContain(table);
  });

  test("has a user-mode network by a process of its own, and reaches out through it", async () => {
    const pid = await create(6102, {
      ...(await bootable()),
      net0: "virtio",
    });
    await expectEmpty(pid);
    expect(namespaceOf(helper("6102-net0"))).toBe(own);
    const { "gpve-notes": notes } = await current(6102);
    const port = /ssh -p (\d+) USER@127\.0\.0\.1/.exec(String(notes))?.[1];
    expect(Number(port)).toBeGreaterThan(20_000);
    await untilAgentAnswers(api, vm(6102));
    expect(await runByAgent(api, vm(6102), "/bin/ip", "-4", "addr")).toContain("10.0.2.15");
    await expectOnlyOutward(vm(6102), Number(port));
    expect((await api("PUT", `${vm(6102)}/config`, { net1: "virtio" })).status).toBe(200);
    expect(namespaceOf(helper("6102-net1"))).toBe(own);
    await unplug(6102, "net1");
    expect(existsSync(`${gpve.data}/run/guests/6102-net1/state`)).toBe(false);
    // An agent that comes back finds both; one whose guest has ended meanwhile is ended.
    await gpve.kill();
    process.kill(pid, "SIGKILL");
    gpve = await gpve.restart();
    api = apiOf(gpve.credentials);
    await expect
      .poll(() => processesOf(`${gpve.data}/run/guests/6102-net0`), { timeout: 150_000 })
      .toEqual([]);
    await expect.poll(() => nft("list", "tables", "inet")).not.toContain(filterTable());
  });
});
