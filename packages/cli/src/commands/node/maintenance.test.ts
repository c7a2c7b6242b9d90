import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:1:";

const list = (items: readonly object[]) => ({
  apiVersion: "gpve.io/v1",
  kind: "List",
  metadata: { resourceVersion: "1" },
  items,
});
const vc = (name: string, status: object) => ({
  apiVersion: "gpve.io/v1",
  kind: "VirtualCluster",
  metadata: { name, namespace: "shop" },
  spec: {},
  status,
});

const node = (name: string, unschedulable: boolean) => ({
  apiVersion: "gpve.io/v1",
  kind: "Node",
  metadata: { name },
  spec: { unschedulable },
  status: {},
});

/** What the scheduler says of nodes, best first: what speaks against them, by filter. */
const placement = (verdicts: Readonly<Record<string, Readonly<Record<string, string>>>> = {}) => ({
  now: {
    verdicts: Object.entries(verdicts).map(([name, refusals]) => ({
      node: name,
      refusals: Object.entries(refusals).map(([filter, why]) => ({ filter, why })),
    })),
  },
});

async function cluster(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .on("PATCH /api/v1/nodes/n1", { body: node("n1", true) })
    .on("GET /api/v1/nodes/n2", { body: node("n2", true) })
    .on("GET /api/v1/nodes/n3", { body: node("n3", false) })
    .on("GET /api/v1/vclusters", { body: list([]) })
    .pve("GET /nodes", [
      { node: "n1", status: "online", maxmem: 100, mem: 0 },
      { node: "n2", status: "online", maxmem: 100, mem: 10 },
      { node: "n3", status: "online", maxmem: 100, mem: 50 },
    ])
    .pve("GET /nodes/n1/qemu", [
      { vmid: 101, name: "still", status: "stopped" },
      { vmid: 100, name: "web", status: "running" },
      { vmid: 900, name: "base", status: "stopped", template: 1 },
    ])
    .pve("GET /nodes/n1/qemu/100/migrate", { allowed_nodes: ["n2", "n3"] })
    .pve("GET /nodes/n1/qemu/101/migrate", { allowed_nodes: ["n2", "n3"] })
    .on("GET /api/v1/virtualmachines/100/placement", { body: placement() })
    .on("GET /api/v1/virtualmachines/101/placement", { body: placement() })
    .pve("POST /nodes/n1/qemu/100/migrate", upid)
    .pve("POST /nodes/n1/qemu/101/migrate", upid)
    .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
    .pve(`GET /nodes/n1/tasks/${upid}/log`, [], 0);
  return ctl;
}

describe("gpvectl node", () => {
  test("cordon and uncordon say what is so afterwards", async () => {
    await using ctl = await cluster();
    expect((await ctl.run(["node", "cordon", "n1"])).out).toContain("Nothing new is placed on n1");
    expect(ctl.api.last("PATCH /api/v1/nodes/n1").body).toContain('"unschedulable":true');
    expect((await ctl.run(["node", "uncordon", "n1"])).out).toContain("n1 takes guests again");
    expect(ctl.api.last("PATCH /api/v1/nodes/n1").body).toContain('"unschedulable":false');
  });

  test("drain moves guests to nodes that take them, running ones live", async () => {
    await using ctl = await cluster();
    const { code, out } = await ctl.run(["node", "drain", "n1"]);
    expect([code, out]).toEqual([
      0,
      expect.stringContaining("Node n1 is empty and takes nothing new: 2 moved."),
    ]);
    expect(out).toContain("VM 100 (web) is on n3 now.");
    expect(ctl.api.last("POST /api2/json/nodes/n1/qemu/100/migrate").body).toContain("online=1");
    expect(ctl.api.last("POST /api2/json/nodes/n1/qemu/101/migrate").body).toBe("target=n3");
  });

  test("drain moves control planes and workers of virtual clusters too, and names what stays", async () => {
    await using ctl = await cluster();
    const worker = (name: string, node: string) => ({ name, node });
    const replicas = ["n1", "n2", "n3"].map((node) => ({ node, phase: "Running", ready: true }));
    ctl.api
      .on("GET /api/v1/vclusters", {
        body: list([
          vc("demo", { node: "n1", vnodes: [worker("worker-1", "n1"), worker("worker-2", "n3")] }),
          vc("safe", { node: "n2", replicas }),
          vc("far", { node: "n3", vnodes: [worker("worker-1", "n3")] }),
        ]),
      })
      .on("POST /api/v1/tenants/shop/vclusters/demo/migrate", { body: { task: upid } });
    const { code, out, err } = await ctl.run(["node", "drain", "n1"]);
    expect([code, err]).toEqual([0, expect.stringContaining("safe keeps a replica on n1")]);
    expect(out).toContain("Virtual cluster shop/demo is on n3 now.");
    expect(out).toContain("worker-1 of virtual cluster shop/demo is on n3 now.");
    expect(out).toContain("Node n1 takes nothing new: 4 moved.");
    const asked = ctl.api.requests.filter(({ path }) => path.endsWith("/demo/migrate"));
    expect(asked.map(({ body }) => JSON.parse(body) as unknown)).toEqual([
      { target: "n3" },
      { target: "n3", worker: "worker-1" },
    ]);
    ctl.api.on("POST /api/v1/tenants/shop/vclusters/demo/migrate", {
      status: 409,
      headers: { "content-type": "application/problem+json" },
      body: { title: "conflict", status: 409, detail: "its volumes are on n1", code: "object.conflict" },
    });
    const again = await ctl.run(["node", "drain", "n1"]);
    expect([again.code, again.err]).toEqual([
      expect.any(Number),
      expect.stringContaining("still has virtual cluster shop/demo: its volumes are on n1"),
    ]);
    expect(again.code).not.toBe(0);
  });

  test("drain sends guests where the scheduler would place them, and names what speaks against the others", async () => {
    await using ctl = await cluster();
    ctl.api
      .on("GET /api/v1/nodes/n2", { body: node("n2", false) })
      .on("GET /api/v1/virtualmachines/100/placement", { body: placement({ n3: {}, n2: {} }) })
      .on("GET /api/v1/virtualmachines/101/placement", {
        body: placement({
          n2: { TaintToleration: "its taint gpu:NoSchedule is not tolerated" },
          n3: {
            NodeAffinity: "its labels do not match 'disk=ssd'",
            NodeResourcesFit: "0 of 1 CPUs are free",
          },
        }),
      });
    const { code, out, err } = await ctl.run(["node", "drain", "n1"]);
    expect(code).not.toBe(0);
    expect(out).toContain("VM 100 (web) is on n3 now.");
    expect(err).toContain(
      "VM 101 (still): no other node can have it (n2: its taint gpu:NoSchedule is not tolerated; n3: its labels do not match 'disk=ssd', 0 of 1 CPUs are free)",
    );
  });

  test("drain takes a node whose memory is promised to others as the last resort, a running guest only where it is free", async () => {
    await using ctl = await cluster();
    const full = { NodeResourcesFit: "0 of 1 CPUs are free" };
    ctl.api
      .on("GET /api/v1/nodes/n2", { body: node("n2", false) })
      .on("GET /api/v1/virtualmachines/100/placement", { body: placement({ n2: full, n3: {} }) })
      .on("GET /api/v1/virtualmachines/101/placement", { body: placement({ n2: full, n3: full }) });
    const { out } = await ctl.run(["node", "drain", "n1"]);
    expect(out).toContain("VM 100 (web) is on n3 now.");
    expect(out).toContain("VM 101 (still) is on n2 now.");
    ctl.api
      .on("GET /api/v1/virtualmachines/100/placement", { body: placement({ n2: full, n3: full }) })
      .pve("GET /nodes/n1/qemu", [{ vmid: 100, name: "web", status: "running", maxmem: 70 }]);
    expect((await ctl.run(["node", "drain", "n1"])).out).toContain("VM 100 (web) is on n2 now.");
    ctl.api.pve("GET /nodes/n1/qemu", [{ vmid: 100, name: "web", status: "running", maxmem: 91 }]);
    expect((await ctl.run(["node", "drain", "n1"])).err).toContain(
      "VM 100 (web): no other node can have it (n2: 0 of 1 CPUs are free; n3: 0 of 1 CPUs are free)",
    );
  });

  test("drain sends no part of a virtual cluster to a tainted node", async () => {
    await using ctl = await cluster();
    const tainted = { ...node("n3", false), spec: { taints: [{ key: "gpu", effect: "NoSchedule" }] } };
    ctl.api
      .pve("GET /nodes/n1/qemu", [])
      .on("GET /api/v1/nodes/n3", { body: tainted })
      .on("GET /api/v1/vclusters", { body: list([vc("demo", { node: "n1", vnodes: [] })]) });
    expect((await ctl.run(["node", "drain", "n1"])).err).toContain(
      "no other node can have it (n2: it is cordoned; n3: it has the taint gpu)",
    );
  });

  test("drain waits until HA has moved what it looks after", async () => {
    await using ctl = await cluster();
    const asked = "UPID:n1:1:1:1:hamigrate:100:root@pam:";
    ctl.api
      .pve("POST /nodes/n1/qemu/100/migrate", asked)
      .pve(`GET /nodes/n1/tasks/${asked}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${asked}/log`, [], 0)
      .pve("GET /cluster/resources", [{ vmid: 100, node: "n2" }]);
    const { out } = await ctl.run(["node", "drain", "n1"]);
    expect(out).toContain("VM 100 (web) is on n2 now.");
  });

  test("drain names what cannot move, and moves the rest", async () => {
    await using ctl = await cluster();
    ctl.api.pve("GET /nodes/n1/qemu/100/migrate", {
      allowed_nodes: ["n2"],
      not_allowed_nodes: { n3: { reasons: ["scsi0: storage 'fast' is not active", "no bridge 'vmbr7'"] } },
    });
    const { code, out, err } = await ctl.run(["node", "drain", "n1"]);
    expect(code).not.toBe(0);
    expect(out).toContain("VM 101 (still) is on n3 now.");
    expect(err).toContain(
      "still has VM 100 (web): no other node can have it (n2: it is cordoned; n3: scsi0: storage 'fast' is not active, no bridge 'vmbr7')",
    );
  });

  test("drain sends nobody to a node in maintenance, or to one that is offline", async () => {
    await using ctl = await cluster();
    ctl.api
      .on("GET /api/v1/nodes/n3", { body: { ...node("n3", false), status: { scheduling: "maintenance" } } })
      .pve("GET /nodes", [
        { node: "n1", status: "online" },
        { node: "n2", status: "offline" },
        { node: "n3", status: "online" },
      ]);
    const { err } = await ctl.run(["node", "drain", "n1"]);
    expect(err).toContain("(n2: it is not online; n3: it is in maintenance)");
  });

  test("labels and taints are set, removed and shown", async () => {
    await using ctl = await cluster();
    const taints = [
      { key: "gpu", value: "only", effect: "NoSchedule" },
      { key: "slow", effect: "PreferNoSchedule" },
    ];
    const body = {
      ...node("n1", false),
      metadata: { name: "n1", resourceVersion: "7", labels: { disk: "ssd" } },
    };
    ctl.api
      .on("GET /api/v1/nodes/n1", { body: { ...body, spec: { taints } } })
      .on("PATCH /api/v1/nodes/n1", { body });
    const sent = () => JSON.parse(ctl.api.last("PATCH /api/v1/nodes/n1").body) as unknown;
    expect((await ctl.run(["node", "label", "n1", "disk=ssd", "zone-"])).out).toBe(
      "n1 has the labels disk=ssd.\n",
    );
    expect(sent()).toEqual({ metadata: { labels: { disk: "ssd", zone: null } } });
    expect((await ctl.run(["node", "taint", "n1", "gpu=none", "slow-"])).out).toBe("n1 has no taints.\n");
    expect(sent()).toEqual({
      metadata: { resourceVersion: "7" },
      spec: { taints: [{ key: "gpu", value: "none", effect: "NoSchedule" }] },
    });
    const patches = ctl.api.requests.length;
    expect((await ctl.run(["node", "taint", "n1"])).out).toBe(
      "n1 has the taints gpu=only:NoSchedule, slow:PreferNoSchedule.\n",
    );
    expect((await ctl.run(["node", "label", "n1", "-o", "json"])).out).toContain('"disk": "ssd"');
    expect(ctl.api.requests.slice(patches).every(({ method }) => method === "GET")).toBe(true);
    for (const [verb, text] of [
      ["label", "disk"],
      ["taint", "gpu:Never"],
      ["taint", "=x"],
    ] as const) {
      const { code, err } = await ctl.run(["node", verb, "n1", text]);
      expect([code, err]).toEqual([2, expect.stringContaining(`"${text}" is neither KEY`)]);
    }
  });
});

describe("gpvectl server join-command", () => {
  test("prints one command, with the token on standard input", async () => {
    await using ctl = await cluster();
    ctl.api.on("POST /api/v1/server-join-tokens", {
      status: 201,
      body: { token: "gpve-join.a.b.c", expiresAt: "2026-01-01T00:00:00.000Z" },
    });
    const args = [
      "server",
      "join-command",
      "--node",
      "s2",
      "--address",
      "192.0.2.2",
      "--endpoint",
      "https://192.0.2.1:8006",
    ];
    const { out, err } = await ctl.run(args);
    expect(out).toBe(
      "./gpve server join --endpoint https://192.0.2.1:8006 --node s2 --address 192.0.2.2 <<EOF && ./gpve server\ngpve-join.a.b.c\nEOF\n",
    );
    expect(err).toContain("is a secret");
    expect(JSON.parse((await ctl.run([...args, "-o", "json"])).out)).toMatchObject({
      token: "gpve-join.a.b.c",
    });
    expect((await ctl.run(["server", "join-command", "--node", "a$(b)"])).code).toBe(2);
    ctl.api.on("POST /api/v1/server-join-tokens", { status: 201, body: {} });
    expect((await ctl.run(["server", "join-command"])).code).toBe(1);
  });
});
