// Quotas while things die: creates and clones by three tenants at once through both faces, on SQLite and on three etcds
// of which one is killed, with kill -9 of server and agent in between. Never over, exact at the end.
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, test, type ExpectStatic } from "vitest";
import { object, QuotaClient } from "../support/quota-crowd.ts";
import { startParts, type Parts } from "../support/parts.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED quotas on etcd: ${etcdMissing}`);

/** Of each of three waves. */
const COUNT = Number(process.env["GPVE_QUOTA_REQUESTS"] ?? 30);
const TENANTS = ["a", "a/b", "c"] as const;
type Tenant = (typeof TENANTS)[number];
/** `a/b` also counts in `a`. */
const HARD: Readonly<Record<Tenant, number>> = {
  a: Math.ceil(COUNT / 5),
  "a/b": Math.ceil(COUNT / 8),
  c: Math.ceil(COUNT / 6),
};
const LONGEST_MS = 300_000 + COUNT * 2000;

interface World {
  readonly parts: Parts;
  /** A member of the store, where it has several. */
  readonly loseMember: () => Promise<void>;
}

// At once: most of the time is the minute for which promises of a dead server are kept.
describe.concurrent("creates and clones by three tenants at once, killed in between", () => {
  test(
    "on SQLite",
    async ({ expect }) => {
      const parts = await startParts(undefined);
      try {
        await story({ parts, loseMember: async () => undefined }, expect);
      } finally {
        await parts.stop();
      }
    },
    LONGEST_MS,
  );

  test.skipIf(etcdMissing !== undefined)(
    "on three etcds of which one is killed",
    async ({ expect }) => {
      const cluster: EtcdCluster = await startEtcd({ members: 3 });
      let parts: Parts | undefined;
      try {
        parts = await startParts({ endpoints: cluster.endpoints });
        await story({ parts, loseMember: async () => cluster.members[0]?.kill() }, expect);
      } finally {
        await parts?.stop();
        await cluster.stop();
      }
    },
    LONGEST_MS,
  );
});

async function story({ parts, loseMember }: World, expect: ExpectStatic): Promise<void> {
  const client = new QuotaClient(() => parts.credentials);
  try {
    const node = await client.node();
    const qemu = `/nodes/${node}/qemu`;
    await ground(client, qemu);
    const one = requester(client, node);
    const wave = (from: number) => Array.from({ length: COUNT }, (_, index) => one(from + index));
    const isOver = async (): Promise<readonly string[]> => {
      const found: string[] = [];
      for (const name of TENANTS) if ((await client.there(name)) > HARD[name]) found.push(name);
      return found;
    };

    const first = wave(1000);
    await Promise.race(first);
    await loseMember();
    await Promise.all(first);
    expect(await isOver()).toEqual([]);

    const second = wave(1000 + COUNT);
    await Promise.race(second);
    await sleep(COUNT * 5 * Math.random());
    await parts.kill();
    await Promise.all(second);
    await parts.restart();
    expect(await isOver()).toEqual([]);

    const third = await Promise.all(wave(1000 + 2 * COUNT));
    expect(await isOver()).toEqual([]);
    expect(third).toContain(500);

    // What the killed server had promised is held for a minute: a node might still be about to begin. What the killed
    // agent had begun counts until it is undone.
    const books = async () => ({
      atWork: await client.atWork(),
      ledger: await Promise.all(TENANTS.map(async (name) => (await client.used(name))["vmCount"])),
      records: await Promise.all(TENANTS.map((name) => client.there(name))),
    });
    await expect
      .poll(
        async () => {
          const { atWork, ledger, records } = await books();
          return { atWork, differ: ledger.map((count, index) => Number(count) - (records[index] ?? 0)) };
        },
        { timeout: 120_000, interval: 1000 },
      )
      .toEqual({ atWork: 0, differ: [0, 0, 0] });

    // With nothing promised and nothing at work, every tenant gets exactly what it may have. The inner one first: what
    // it takes, the outer one cannot.
    let vmid = 9000;
    const more = (pool: Tenant) => client.api2("POST", qemu, { vmid: vmid++, pool, memory: "32" });
    const hasRoom = async (name: Tenant): Promise<boolean> => {
      for (const bound of name === "a/b" ? (["a/b", "a"] as const) : [name])
        if ((await client.there(bound)) >= HARD[bound]) return false;
      return true;
    };
    for (const name of ["a/b", "a", "c"] as const)
      while (await hasRoom(name)) expect(await client.done(await more(name))).toBe("OK");
    expect(await client.there("a")).toBe(HARD.a);
    expect(await client.there("c")).toBe(HARD.c);
    for (const name of TENANTS)
      expect(await more(name)).toMatchObject({
        status: 500,
        message: expect.stringMatching(/quota exceeded - vmCount of tenant/),
      });
    const { ledger, records } = await books();
    expect(ledger).toEqual(records);
  } finally {
    client.close();
  }
}

/** The tenants with their quotas, and a template to clone. */
async function ground(client: QuotaClient, qemu: string): Promise<void> {
  for (const name of TENANTS) {
    await client.v1("POST", "/tenants", object("Tenant", { name }, {}));
    const quota = object("ResourceQuota", { name, namespace: name }, { limits: { vmCount: HARD[name] } });
    await client.v1("POST", "/resourcequotas", quota);
  }
  await client.done(await client.api2("POST", qemu, { vmid: 900, memory: "32", scsi0: "local:0.001" }));
  await client.done(await client.api2("POST", `${qemu}/900/template`, {}));
}

/** One request of many: which face and what, by its number. */
function requester(client: QuotaClient, node: string): (vmid: number) => Promise<number> {
  const qemu = `/nodes/${node}/qemu`;
  return async (vmid) => {
    const pool = TENANTS[vmid % 3] ?? "a";
    try {
      if (vmid % 4 === 0)
        return (await client.api2("POST", qemu, { vmid, pool, memory: "32", scsi0: "local:0.001" })).status;
      if (vmid % 4 === 1) {
        const spec = { node, memory: { size: "32Mi" } };
        const vm = object("VirtualMachine", { name: String(vmid), namespace: pool }, spec);
        return (await client.v1("POST", "/virtualmachines", vm)).status;
      }
      return (await client.api2("POST", `${qemu}/900/clone`, { newid: vmid, pool })).status;
    } catch {
      return 0; // the server was killed
    }
  };
}
