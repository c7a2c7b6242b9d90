// The network that `up` gives to guests, on this machine's own interfaces: made, used, taken away.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, mainFile, nodeBinary, startGpve } from "../support/gpve.ts";
import { networkTurn, type NetworkTurn } from "../support/network-turn.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const missing = [
  ...(process.getuid?.() === 0 ? [] : ["root"]),
  ...(existsSync("/usr/bin/qemu-system-x86_64") ? [] : ["qemu-system-x86"]),
  ...(existsSync("/usr/sbin/dnsmasq") ? [] : ["dnsmasq-base"]),
  ...(existsSync("/usr/sbin/nft") ? [] : ["nftables"]),
];
if (missing.length > 0)
  console.warn(`SKIPPED: needs ${missing.join(", ")}; get packages with apt-get install`);

describe.skipIf(missing.length > 0)("the network of guests", () => {
  let turn: NetworkTurn | undefined;
  let gpve: Gpve;
  let api: Api;
  let node: string;
  let bridge: string;

  const run = (path: string, params?: TaskCall[2]) => runTask(api, "POST", path, params);
  const masterOf = (tap: string): string =>
    realpathSync(`/sys/class/net/${tap}/master`).split("/").at(-1) ?? "";

  beforeAll(async () => {
    turn = await networkTurn();
    gpve = await startGpve({ network: true });
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
  }, 1_800_000);
  afterAll(async () => {
    await exec(nodeBinary, [mainFile, "down", "--guests", "--data", gpve.data], { timeoutMs: 120_000 });
    expect(existsSync(`/sys/class/net/${bridge}`)).toBe(false);
    await gpve.stop();
    turn?.release();
  });

  test("is a bridge with an address, DHCP and DNS", async () => {
    const log = readFileSync(join(gpve.data, "log/gpve.jsonl"), "utf8");
    bridge = /"bridge":"([^"]+)"/.exec(log)?.[1] ?? "";
    const rows = (await api("GET", `/nodes/${node}/network`, { type: "bridge" })).data as { iface: string }[];
    expect(rows).toContainEqual(
      expect.objectContaining({ iface: bridge, type: "bridge", cidr: expect.stringMatching(/^10\.37\./) }),
    );
  });

  test("carries a VM's cards, from its start on and plugged later", async () => {
    const vm = `/nodes/${node}/qemu/100`;
    const values = { vmid: 100, memory: 32, net0: "virtio,bridge=vmbr0,rate=2,link_down=1" };
    expect(await run(`/nodes/${node}/qemu`, values)).toMatchObject({ exitstatus: "OK" });
    const started = await run(`${vm}/status/start`);
    expect(started.exitstatus).toMatch(/^(?:OK|WARNINGS: \d+)$/);
    expect(masterOf("tap100i0")).toBe(bridge);
    const plugged = await api("PUT", `${vm}/config`, { net1: "e1000,bridge=vmbr0" });
    expect(plugged.status, plugged.text).toBe(200);
    expect(masterOf("tap100i1")).toBe(bridge);
    const traffic = (await api("GET", `/nodes/${node}/netstat`)).data as Record<string, string>[];
    expect(traffic.map(({ vmid, dev }) => `${vmid} ${dev}`).toSorted()).toEqual(["100 net0", "100 net1"]);
    expect(traffic[0]).toMatchObject({
      in: expect.stringMatching(/^\d+$/),
      out: expect.stringMatching(/^\d+$/),
    });
    await run(`${vm}/status/stop`);
    expect(existsSync("/sys/class/net/tap100i0")).toBe(false);
  });

  test("refuses cards on bridges that are not there or filter no VLANs, and leaves nothing", async () => {
    const vm = `/nodes/${node}/qemu/101`;
    await run(`/nodes/${node}/qemu`, { vmid: 101, memory: 32, net0: "virtio,bridge=vmbr77" });
    expect((await run(`${vm}/status/start`)).exitstatus).toBe("bridge 'vmbr77' does not exist");
    expect((await api("PUT", `${vm}/config`, { net0: "virtio,bridge=vmbr0,tag=7" })).status).toBe(200);
    expect((await run(`${vm}/status/start`)).exitstatus).toContain("does not filter VLANs");
    expect((await api("GET", `${vm}/status/current`)).data).toMatchObject({ status: "stopped" });
    expect(existsSync("/sys/class/net/tap101i0")).toBe(false);
  });
});
