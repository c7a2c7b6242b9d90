// etcd without quorum, on real members: reads go on and say how old they are, writes say why, guests run on.
import { afterAll, expect, test } from "vitest";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { apiOf } from "../support/gpve.ts";
import { endGuestsOf, removeWallOf } from "../support/left-guests.ts";
import { startParts } from "../support/parts.ts";

if (etcdMissing !== undefined) console.warn(`SKIPPED: ${etcdMissing}`);
const closers: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closers.toReversed()) await close();
});

interface Row {
  readonly type: string;
  readonly quorate?: number;
}

test.skipIf(etcdMissing !== undefined)(
  "two of three members away: old reads that say so, writes that say why, a guest that runs on",
  async () => {
    const etcd = await startEtcd({ members: 3 });
    closers.push(() => etcd.stop());
    const parts = await startParts({ endpoints: etcd.endpoints });
    closers.push(async () => {
      endGuestsOf(parts.agentData);
      await removeWallOf(parts.agentData);
      await parts.stop();
    });
    const api = apiOf(parts.credentials);
    const v1 = apiOf(parts.credentials, undefined, "/api/v1");
    expect((await api("POST", "/pools", { poolid: "before" })).status).toBe(200);
    // The agent has just joined and may still be reading the cluster's records.
    const make = async () => (await api("POST", "/nodes/n1/qemu", { vmid: 100, memory: 64, kvm: 0 })).status;
    await expect.poll(make, { timeout: 150_000, interval: 500 }).toBe(200);
    const vm = async () =>
      (await api("GET", "/nodes/n1/qemu/100/status/current")).data as {
        status?: string;
        pid?: number;
      } | null;
    await expect.poll(async () => (await vm())?.status, { timeout: 150_000 }).toBe("stopped");
    await api("POST", "/nodes/n1/qemu/100/status/start");
    await expect.poll(async () => (await vm())?.status, { timeout: 150_000 }).toBe("running");
    const pid = (await vm())?.pid;
    const quorate = async () =>
      ((await api("GET", "/cluster/status")).data as Row[]).find(({ type }) => type === "cluster")?.quorate;
    const fresh = await api("GET", "/pools");
    expect([fresh.headers["x-gpve-data-age"], await quorate()]).toEqual([undefined, 1]);

    for (const member of etcd.members.slice(1)) await member.kill();
    await expect.poll(quorate, { timeout: 150_000 }).toBe(0);
    const old = await api("GET", "/pools");
    expect([old.status, old.data]).toMatchObject([200, [{ poolid: "before" }]]);
    expect(Number(old.headers["x-gpve-data-age"])).toBeGreaterThan(0);
    const object = await v1("GET", "/tenants");
    expect([object.status, Number(object.headers["x-gpve-data-age"]) > 0]).toEqual([200, true]);
    const refused = await api("POST", "/pools", { poolid: "not" });
    expect([refused.status, refused.reason]).toEqual([503, expect.stringContaining("etcd")]);
    expect(() => process.kill(pid ?? 0, 0)).not.toThrow();
  },
);
