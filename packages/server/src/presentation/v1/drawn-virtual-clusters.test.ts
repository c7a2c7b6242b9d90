// The requests about virtual clusters as they were drawn before there was a product (appendix C of the design that
// `../shared` has, or GPVE_SEEDS), word for word but for the version.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import type { Capability, NodeView } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { VirtualClusters } from "../../application/vcluster/virtual-clusters.ts";
import { drawnRequests, type DrawnRequest } from "../../testing/drawn-requests.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";
import { boardPlacer } from "../../testing/board-placer.ts";
import { quietWatch } from "../../testing/quiet-kinds.ts";

const VERSION = "1.36";
const drawing = drawnRequests("C.2", "/api/v1");
const missing = drawing.lacking === undefined ? "" : ` (skipped: ${drawing.lacking})`;

describe.skipIf(drawing.lacking !== undefined)(`virtual clusters as drawn${missing}`, () => {
  const asked: { readonly route: string; readonly params: unknown }[] = [];
  let v1: V1TestServer;

  beforeAll(async () => {
    v1 = await startV1({
      vclusters: (records, board) =>
        new VirtualClusters({
          ...quietWatch,
          placer: boardPlacer({ records, board }),
          records,
          board,
          clock: systemClock,
          quotas: { quotasOn: () => [], usage: () => ({ limits: {}, requests: {} }) },
          taskEnd: async () => undefined,
          calls: {
            call: async (_node, route, params) => {
              if (route.endsWith("/volumes")) return { data: [] } as never;
              asked.push({ route, params });
              const data = route.endsWith("/kubeconfig")
                ? { id: "1", kubeconfig: "text", expiresAt: 0 }
                : "UPID:n1:1:";
              return { data } as never;
            },
          },
        }),
    });
    setKata({
      available: false,
      detail: "containerd-shim-kata-v2 is in none of /usr/bin",
      fix: "install it",
    });
    await v1.records.transact((tx) => tx.put(poolsDef, "shop", { poolid: "shop", vms: [], storage: [] }));
  });
  afterAll(() => v1.close());
  const setKata = (kata: Omit<Capability, "name">): void => {
    const facts = { capabilities: [{ name: "kata", ...kata }] };
    v1.views.set("n1", { node: "n1", health: "online", facts } as unknown as NodeView);
  };

  const send = ({ method, path, body }: DrawnRequest, more: Readonly<Record<string, unknown>> = {}) =>
    v1.ask(
      method,
      path.replace("{tenantId}", "shop").replace("{name}", "dev-cluster"),
      body === undefined ? {} : { body: { ...body, ...more } },
    );

  test("all of them are known", () => {
    expect(drawing.requests).toHaveLength(7);
  });

  test("its level where Kata is absent is refused with what is missing, and nothing is left", async () => {
    const create = drawing.find("POST", "/vclusters");
    expect(create.body?.["isolationLevel"]).toBe("L2");
    const { status, body } = await send(create, { kubernetesVersion: VERSION });
    expect([status, body["detail"]]).toEqual([
      400,
      expect.stringContaining("n1: containerd-shim-kata-v2 is in none of /usr/bin (install it)"),
    ]);
    expect(body.errors).toHaveProperty(["spec.isolationLevel"]);
    expect([asked, (await send(drawing.find("GET", "/vclusters"))).body.items]).toEqual([[], []]);
  });

  test("its level where Kata works is what it gets, word for word", async () => {
    setKata({ available: true, detail: "/opt/kata/bin/containerd-shim-kata-v2" });
    const made = await send(drawing.find("POST", "/vclusters"), { kubernetesVersion: VERSION });
    expect(made).toMatchObject({ status: 201, body: { spec: { isolationLevel: "L2" } } });
    expect((await send(drawing.find("DELETE", "/{name}"))).status).toBe(200);
  });

  test("with L1 in any letter case a cluster lives as drawn, from its creation to its end", async () => {
    const create = drawing.find("POST", "/vclusters");
    const made = await send(create, { kubernetesVersion: VERSION, isolationLevel: "l1" });
    expect(made).toMatchObject({
      status: 201,
      body: {
        kind: "VirtualCluster",
        metadata: { name: "dev-cluster", namespace: "shop" },
        spec: {
          kubernetesVersion: VERSION,
          controlPlane: { tier: "Standard", backingStore: "sqlite", replicas: 1 },
          workerNodes: { mode: "private", count: 3 },
          isolationLevel: "L1",
        },
        status: { phase: "Pending", power: "cold", vnodes: [] },
      },
    });
    expect(asked.at(-1)?.params).toMatchObject({ called: "dev-cluster", tenant: "shop" });
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toHaveLength(1);
    expect((await send(drawing.find("GET", "/{name}"))).body.metadata.name).toBe("dev-cluster");
    expect((await send(drawing.find("GET", "/kubeconfig"))).body).toMatchObject({ kubeconfig: "text" });
    expect(await send(drawing.find("PATCH", "/scale"))).toMatchObject({
      status: 202,
      body: { task: "UPID:n1:1:" },
    });
    expect(asked.at(-1)?.params).toMatchObject({ tenant: "shop", workers: 5 });
    expect((await send(drawing.find("GET", "/{name}"))).body.spec).toMatchObject({
      workerNodes: { count: 5 },
    });
    expect(await send(drawing.find("POST", "/upgrade"))).toMatchObject({
      status: 202,
      body: { task: expect.stringMatching(/:1\.31$/) },
    });
    expect((await send(drawing.find("DELETE", "/{name}"))).status).toBe(200);
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toEqual([]);
  });

  test("scaling as drawn is refused where the number is none", async () => {
    const scale = drawing.find("PATCH", "/scale");
    const create = drawing.find("POST", "/vclusters");
    await send(create, { kubernetesVersion: VERSION, isolationLevel: "L1" });
    for (const workerNodes of [{ count: -1 }, { count: "5" }, {}, 5])
      expect((await send(scale, { workerNodes })).status).toBe(400);
  });

  test("what a request does not have to say may be left out, or said where others say it", async () => {
    const at = "/tenants/shop/vclusters/dev-cluster";
    const sent = async (method: string, end: string, body?: unknown) =>
      (await v1.ask(method, `${at}${end}`, body === undefined ? {} : { body })).status;
    expect(await sent("POST", "/sleep", { mode: "warm" })).toBe(202);
    expect(asked.at(-1)?.params).toMatchObject({ mode: "warm" });
    for (const verb of ["start", "stop", "wake", "retry", "sleep"])
      expect(await sent("POST", `/${verb}`, {})).toBe(202);
    expect(await sent("POST", "/start", { now: true })).toBe(400);
    expect(await sent("POST", "/sleep", { mode: "tepid" })).toBe(400);
    expect(await sent("POST", "/backup")).toBe(202);
    expect(await sent("POST", "/upgrade")).toBe(400);
    expect(await sent("POST", "/scale", { workerNodes: { count: 4 } })).toBe(202);
    expect(await sent("PATCH", "/scale", { count: 3 })).toBe(202);
    const body = { metadata: { name: "second" }, spec: { workerNodes: { mode: "Private" } } };
    const made = await v1.ask("POST", "/tenants/shop/vclusters", { body });
    expect(made).toMatchObject({ status: 201, body: { apiVersion: "gpve.io/v1", kind: "VirtualCluster" } });
    const other = { body: { ...body, kind: "VirtualMachine" } };
    expect((await v1.ask("POST", "/tenants/shop/vclusters", other)).status).toBe(400);
  });

  test("an upgrade says one version, in either word", async () => {
    const upgrade = drawing.find("POST", "/upgrade");
    for (const body of [{ version: "1.31" }, { version: "v1.31" }])
      expect((await send(upgrade, { targetVersion: undefined, ...body })).status).toBe(202);
    for (const body of [{ targetVersion: undefined }, { targetVersion: 1.31 }, { version: "1.32" }]) {
      const { status, body: refused } = await send(upgrade, body);
      expect([status, JSON.stringify(refused)]).toEqual([400, expect.stringContaining("ersion")]);
    }
  });
});
