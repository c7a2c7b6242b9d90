// A server and three agents in four network namespaces: nodes die, are cut off and come back.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { startTestCluster, type TestCluster } from "@gpve/kit/testing/cluster/test-cluster.ts";
import { eventually } from "@gpve/kit/testing/cluster/test-process.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { mainFile, nodeBinary } from "../support/gpve.ts";

const problem = await networkProblem();
if (problem !== undefined) console.warn(`SKIPPED three nodes: ${problem}`);

/** On etcd as many nodes have it; on SQLite too in the long run. */
const stores = (process.env["GPVE_NODES_STORES"] ?? "etcd").split(",") as ("sqlite" | "etcd")[];

describe.each(stores)("three nodes in namespaces, store %s", (store) => {
  let cluster: TestCluster;
  type NodeRow = { node: string; status: string; ssl_fingerprint?: string };
  const statuses = async (): Promise<Record<string, string>> => {
    const { body } = await cluster.api("GET", "/api2/json/nodes");
    const rows = (body as { data: readonly NodeRow[] }).data;
    return Object.fromEntries(
      rows.filter(({ node }) => /^n\d$/.test(node)).map((row) => [row.node, row.status]),
    );
  };
  const becomes = (node: string, status: string, withinMs = 150_000): Promise<void> =>
    eventually(`${node} to be ${status}`, withinMs, async () => (await statuses())[node] === status);
  const ask = (node: string, what = "status") => cluster.api("GET", `/api2/json/nodes/${node}/${what}`);

  beforeAll(async () => {
    if (problem !== undefined) return;
    const command = [
      nodeBinary,
      "--import",
      join(import.meta.dirname, "fixtures/other-protocol.mjs"),
      mainFile,
    ];
    cluster = await startTestCluster({ nodes: 3, store, command });
  });
  afterAll(async () => {
    await cluster?.close();
  });

  test.skipIf(problem !== undefined)("all join, are online and answer for themselves", async () => {
    for (const node of cluster.nodes) await becomes(node.name, "online");
    for (const node of cluster.nodes) {
      await eventually(`${node.name} to answer`, 150_000, async () => (await ask(node.name)).status === 200);
      expect(await ask(node.name)).toMatchObject({
        status: 200,
        body: {
          data: { pveversion: expect.stringMatching(/^pve-manager\//), cpuinfo: { hvm: expect.any(String) } },
        },
      });
      expect(await ask(node.name, "rrddata?timeframe=hour")).toMatchObject({ status: 200 });
      expect(await ask(node.name, "tasks")).toMatchObject({ status: 200 });
    }
  });

  test.skipIf(problem !== undefined || !existsSync("/bin/login"))(
    "a console of one node is reached through the server of another",
    async () => {
      const { body } = await cluster.api("POST", "/api2/json/nodes/n2/termproxy", {});
      const offer = (body as { data: { port: number; ticket: string; user: string; upid: string } }).data;
      expect(offer.upid).toMatch(/^UPID:n2:.*:vncshell:/);
      const url = new URL(`${cluster.credentials().url}/api2/json/nodes/n2/vncwebsocket`);
      url.protocol = "wss:";
      url.searchParams.set("port", String(offer.port));
      url.searchParams.set("vncticket", offer.ticket);
      const socket = new WebSocket(url, ["binary"], {
        ca: readFileSync(cluster.credentials().caFile),
        headers: { Authorization: `PVEAPIToken=${cluster.credentials().token}` },
      });
      let seen = "";
      socket.on("message", (data: Buffer) => (seen += data.toString("latin1")));
      await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
      socket.send(`${offer.user}:${offer.ticket}\n`);
      await expect.poll(() => seen, { timeout: 150_000 }).toMatch(/^OK[^]*login: /);
      socket.close();
    },
  );

  test.skipIf(problem !== undefined)(
    "a node's task is told to the cluster, its log stays on the node",
    async () => {
      const made = await cluster.api("POST", "/api/v1/nodes/n3/probe");
      expect(made.status, JSON.stringify(made.body)).toBe(202);
      const find = async (): Promise<{ upid: string; status?: string } | undefined> => {
        const { body } = await cluster.api("GET", "/api2/json/cluster/tasks");
        const rows = (body as { data: readonly { upid: string; node: string; status?: string }[] }).data;
        return rows.find(({ node }) => node === "n3");
      };
      await eventually("the task to end", 150_000, async () => (await find())?.status === "OK");
      const upid = encodeURIComponent((await find())?.upid ?? "");
      const log = await ask("n3", `tasks/${upid}/log`);
      expect(log).toMatchObject({
        status: 200,
        body: { data: expect.arrayContaining([{ n: expect.any(Number), t: "TASK OK" }]) },
      });
    },
  );

  test.skipIf(problem !== undefined)(
    "a killed agent is offline, calls give 595, a start brings it back",
    async () => {
      const victim = cluster.node("n1");
      await victim.kill();
      await becomes("n1", "offline");
      const refused = await ask("n1");
      expect({ status: refused.status, reason: refused.reason }).toEqual({
        status: 595,
        reason: "Connection refused",
      });
      expect((await ask("n2")).status).toBe(200);
      await victim.start();
      await becomes("n1", "online");
      await eventually("n1 to answer", 150_000, async () => (await ask("n1")).status === 200);
    },
  );

  test.skipIf(problem !== undefined)(
    "a node that is cut off is offline, calls give 595, and it heals by itself",
    async () => {
      const lonely = cluster.node("n2");
      expect((await ask("n2")).status).toBe(200);
      await lonely.cutOff();
      await becomes("n2", "offline");
      const lost = await ask("n2");
      expect(lost.status).toBe(595);
      expect(lost.reason).toMatch(/No route to host|Connection timed out/);
      expect(lonely.running).toBe(true);
      await lonely.heal();
      await becomes("n2", "online");
      await eventually("n2 to answer", 150_000, async () => (await ask("n2")).status === 200);
      expect(await statuses()).toEqual({ n1: "online", n2: "online", n3: "online" });
    },
  );

  test.skipIf(problem !== undefined)("agents find a server that was killed and started again", async () => {
    await cluster.server.kill();
    await cluster.server.start();
    for (const node of cluster.nodes) await becomes(node.name, "online", 15_000);
    await eventually("n3 to answer", 150_000, async () => (await ask("n3")).status === 200);
    for (const node of cluster.nodes) expect((await statuses())[node.name]).toBe("online");
  });

  test.skipIf(problem !== undefined || store !== stores[0])(
    "an agent of another protocol is refused, which is shown, and let in when it is put right",
    async () => {
      const compatible = async (): Promise<
        { status: string; reason: string; message?: string } | undefined
      > => {
        const { body } = await cluster.api("GET", "/api/v1/nodes/n2");
        const { conditions } = (
          body as { status: { conditions: readonly { type: string; status: string; reason: string }[] } }
        ).status;
        return conditions.find(({ type }) => type === "Compatible");
      };
      const fits = (): Promise<void> =>
        eventually("n2 to fit", 150_000, async () => (await compatible())?.status === "True");
      await fits();
      expect(await compatible()).toMatchObject({ status: "True", reason: "SameVersion" });
      const node = cluster.node("n2");
      const other = join(dirname(node.dataDir), "n2.protocol");
      await node.stop();
      writeFileSync(other, "70-71");
      const starting = node.start().catch((err: unknown) => err);
      await eventually("n2 to be refused", 150_000, async () => (await compatible())?.status === "False");
      expect(await compatible()).toMatchObject({
        reason: "NoCommonProtocol",
        message: expect.stringMatching(
          /agent speaks protocol 70-71, this server at most \d+: upgrade the server/,
        ),
      });
      await becomes("n2", "offline", 60_000);
      await node.kill();
      await starting;
      rmSync(other);
      await node.start();
      await becomes("n2", "online", 60_000);
      await fits();
    },
  );

  test.skipIf(problem !== undefined)("a stranger with a used token does not get in", async () => {
    const thief = cluster.node("n3");
    await thief.stop();
    rmSync(`${thief.dataDir}/pki`, { recursive: true });
    await expect(thief.start()).rejects.toThrow(/unknown, used or expired/);
  });
});

describe("two servers on one etcd", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    if (problem !== undefined) return;
    cluster = await startTestCluster({
      nodes: 1,
      servers: 2,
      store: "etcd",
      command: [nodeBinary, mainFile],
    });
  });
  afterAll(async () => {
    await cluster?.close();
  });

  test.skipIf(problem !== undefined)(
    "both see the node and reach it, also when the other is gone",
    async () => {
      const status = async (at: TestCluster["server"]): Promise<number> =>
        (await cluster.apiAt(at, "GET", "/api2/json/nodes/n1/status")).status;
      for (const server of cluster.servers) {
        await eventually(`${server.name} to reach n1`, 150_000, async () => (await status(server)) === 200);
      }
      const [first, second] = cluster.servers;
      if (first === undefined || second === undefined) throw new Error("two servers were asked for");
      await first.kill();
      await cluster.node("n1").kill();
      await cluster.node("n1").start();
      await eventually("the second server to reach n1", 150_000, async () => (await status(second)) === 200);
      await first.start();
      await eventually("the first server to reach n1", 150_000, async () => (await status(first)) === 200);
      expect([await status(first), await status(second)]).toEqual([200, 200]);
    },
  );

  test.skipIf(problem !== undefined)("what one was at when it was killed is ended by the other", async () => {
    const [first, second] = cluster.servers;
    if (first === undefined || second === undefined) throw new Error("two servers were asked for");
    const ask = (method: string, path: string, body?: unknown) =>
      cluster.apiAt(second, method, `/api/v1${path}`, body);
    const object = (kind: string, name: string, spec: object) => ({
      apiVersion: "gpve.io/v1",
      kind,
      metadata: { name },
      spec,
    });
    // The node is cut off while it is asked for the VM: that takes a while.
    await cluster.node("n1").cutOff();
    const applying = cluster.apiAt(first, "POST", "/api/v1/apply", {
      objects: [
        object("Tenant", "orphans", {}),
        object("VirtualMachine", "700", { node: "n1", config: { name: "never" } }),
      ],
    });
    const { task } = (await applying).body as { readonly task: string };
    await eventually(
      "its first step",
      150_000,
      async () => (await ask("GET", "/tenants/orphans")).status === 200,
    );
    await first.kill();
    await cluster.node("n1").heal();
    await eventually(
      "the other server to undo it",
      60_000,
      async () => (await ask("GET", "/tenants/orphans")).status === 404,
    );
    type Row = { upid: string; endtime?: number; status?: string };
    const ended = async (): Promise<Row | undefined> => {
      const { body } = await cluster.apiAt(second, "GET", "/api2/json/cluster/tasks");
      return (body as { data: readonly Row[] }).data.find(({ upid }) => upid === task);
    };
    await eventually("its task to end", 150_000, async () => (await ended())?.endtime !== undefined);
    expect((await ended())?.status).not.toBe("OK");
    expect((await ask("GET", "/virtualmachines/700")).status).toBe(404);
    // It gets its journal back, in which nothing is left to do.
    await first.start();
    const own = await cluster.apiAt(first, "POST", "/api/v1/apply", {
      objects: [object("Tenant", "later", {})],
    });
    expect(own.status).toBe(202);
  });
});
