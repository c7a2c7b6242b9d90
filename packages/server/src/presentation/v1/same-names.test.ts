// Virtual clusters of one name in several tenants, as each of them and an administrator asks for them.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { cacheReader } from "../../application/v1/adapter.ts";
import { clusterKeyFor } from "../../application/vcluster/cluster-names.ts";
import { VirtualClusters } from "../../application/vcluster/virtual-clusters.ts";
import { startV1, type V1TestServer } from "./testing/v1-server.ts";
import { boardPlacer } from "../../testing/board-placer.ts";
import { quietWatch } from "../../testing/quiet-kinds.ts";

const ANN = "ann@pve"; // of shop
const BOB = "bob@pve"; // of lab
const EVE = "eve@pve"; // may look into shop and lab
interface Told {
  readonly route: string;
  readonly vcluster: string;
  readonly tenant: string;
}

describe("clusters of one name", () => {
  let v1: V1TestServer;
  let told: Told[];
  const key = (tenant: string) => clusterKeyFor(cacheReader(v1.records), { tenant, name: "demo" });
  const make = (tenant: string, body: object = {}, as = "root@pam") =>
    v1.ask("POST", `/tenants/${encodeURIComponent(tenant)}/vclusters`, {
      body: { name: "demo", ...body },
      as,
    });
  const meant = () => {
    const { vcluster, tenant } = told.at(-1) ?? { vcluster: "", tenant: "" };
    return [vcluster, tenant];
  };

  beforeEach(async () => {
    told = [];
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
              told.push({ route, ...(params as Omit<Told, "route">) });
              const { vcluster } = params as { readonly vcluster: string };
              const data = route.endsWith("/kubeconfig")
                ? { id: "1", kubeconfig: `of ${vcluster}`, expiresAt: 0 }
                : "UPID:n1:1:";
              return { data } as never;
            },
          },
        }),
    });
    v1.views.set("n1", { node: "n1", health: "online" } as NodeView);
    await v1.records.transact((tx) => {
      for (const poolid of ["shop", "lab", "lab/eu", "LAB"])
        tx.put(poolsDef, poolid, { poolid, vms: [], storage: [] });
    });
    await v1.addUser(ANN, { grants: [["/pool/shop", "tenant-admin"]] });
    await v1.addUser(BOB, { grants: [["/pool/lab", "tenant-admin"]] });
    await v1.addUser(EVE, {
      grants: [
        ["/pool/shop", "viewer"],
        ["/pool/lab", "viewer"],
      ],
    });
    expect((await make("shop")).status).toBe(201);
    expect((await make("lab", {}, BOB)).headers.get("location")).toBe("/api/v1/tenants/lab/vclusters/demo");
  });
  afterEach(() => v1.close());

  test("are two, each with its tenant; a third in one of them is refused", async () => {
    const { body } = await v1.ask("GET", "/vclusters");
    expect(body.items).toMatchObject([
      { metadata: { name: "demo", namespace: "lab" } },
      { metadata: { name: "demo", namespace: "shop" } },
    ]);
    const uids = body.items.map(({ metadata }) => (metadata as { readonly uid?: string }).uid);
    expect(new Set(uids).size).toBe(2);
    expect(await make("lab")).toMatchObject({ status: 409, body: { code: "object.exists" } });
    const own = await v1.ask("GET", "/vclusters", { as: ANN });
    expect(own.body.items).toMatchObject([{ metadata: { namespace: "shop" } }]);
  });

  test("come page by page, none twice and none left out", async () => {
    await make("default");
    const seen: unknown[] = [];
    let token = "";
    do {
      const { body } = await v1.ask("GET", `/vclusters?limit=1${token === "" ? "" : `&continue=${token}`}`);
      seen.push(...body.items.map(({ metadata }) => (metadata as { readonly namespace?: string }).namespace));
      token = body.metadata.continue ?? "";
    } while (token !== "");
    expect(seen).toEqual(["default", "lab", "shop"]);
  });

  test("by the name alone everybody gets the one that he may see", async () => {
    for (const [as, tenant] of [
      [ANN, "shop"],
      [BOB, "lab"],
    ] as const) {
      expect((await v1.ask("GET", "/vclusters/demo", { as })).body.metadata).toMatchObject({
        namespace: tenant,
      });
      const { body } = await v1.ask("GET", "/vclusters/demo/kubeconfig", { as });
      expect(body).toMatchObject({ kubeconfig: `of ${key(tenant)}` });
      expect(v1.audits.at(-1)).toMatchObject({ user: as, params: { name: "demo", tenant } });
      expect((await v1.ask("POST", "/vclusters/demo/stop", { as })).status).toBe(202);
      expect(meant()).toEqual([key(tenant), tenant]);
    }
  });

  test("a tenant who asks for another's has nothing, and learns nothing, though he has one of that name", async () => {
    const before = told.length;
    const asked = [
      ["GET", ""],
      ["GET", "/kubeconfig"],
      ["DELETE", "/kubeconfigs/1"],
      ["POST", "/start"],
      ["POST", "/sleep"],
      ["GET", "/logs"],
      ["GET", "/events"],
      ["GET", "/backups"],
      ["GET", "/pods/p/mapping"],
      ["DELETE", ""],
    ] as const;
    for (const [method, more] of asked) {
      const by = async (path: string) => {
        const { status, body } = await v1.ask(method, path, { as: ANN });
        return [status, body["detail"]];
      };
      const refused = [403, expect.stringContaining("Permission check failed (/pool/lab,")];
      expect(await by(`/tenants/lab/vclusters/demo${more}`)).toEqual(refused);
      expect(await by(`/vclusters/demo${more}?tenant=lab`)).toEqual(refused);
      // As if there were none: a tenant without one, and one that is no tenant.
      expect((await by(`/tenants/lab%2Feu/vclusters/demo${more}`))[0]).toBe(403);
      expect((await by(`/vclusters/demo${more}?tenant=nowhere`))[0]).toBe(403);
      // A tenant below her own, which is not there.
      expect((await by(`/vclusters/demo${more}?tenant=shop%2F..%2Flab`))[0]).toBe(404);
      expect(await by(`/tenants/lab/vclusters/none${more}`)).toEqual(refused);
    }
    // Its key is no name.
    expect((await v1.ask("GET", `/vclusters/${key("lab")}/kubeconfig`, { as: ANN })).status).toBe(403);
    expect(
      (await v1.ask("GET", `/tenants/shop/vclusters/${key("lab")}/kubeconfig`, { as: ANN })).status,
    ).toBe(404);
    const objects = { body: { spec: { workerNodes: { count: 2 } } }, as: ANN };
    expect((await v1.ask("PATCH", "/tenants/lab/vclusters/demo", objects)).status).toBe(403);
    const disguised = { body: { metadata: { namespace: "lab" }, ...objects.body }, as: ANN };
    expect((await v1.ask("PATCH", "/vclusters/demo", disguised)).status).toBe(403);
    expect(told.length).toBe(before);
    expect((await v1.ask("GET", "/vclusters")).body.items).toHaveLength(2);
  });

  test("who sees several says which he means, and is told of no other", async () => {
    await make("default");
    const several = async (as: string) => {
      const { status, body } = await v1.ask("GET", "/vclusters/demo", { as });
      return [status, body["data"]];
    };
    expect(await several("root@pam")).toEqual([409, { tenants: ["default", "lab", "shop"] }]);
    expect(await several(EVE)).toEqual([409, { tenants: ["lab", "shop"] }]);
    const mapping = "/vclusters/demo/pods/p/mapping?namespace=default";
    expect(await v1.ask("GET", mapping, { as: EVE })).toMatchObject({
      status: 409,
      body: { data: { tenants: ["lab", "shop"] }, errors: { tenant: "must be one of lab, shop" } },
    });
    const { body } = await v1.ask("GET", "/vclusters/demo?tenant=lab", { as: EVE });
    expect(body.metadata).toMatchObject({ namespace: "lab" });
    const may = await v1.ask("POST", "/vclusters/demo/stop?tenant=lab", { as: EVE });
    expect(may.status).toBe(403);
    expect((await v1.ask("GET", "/vclusters/demo/pods/p/mapping?tenant=shop")).status).toBe(200);
    expect((await v1.ask("GET", "/tenants/lab/vclusters/demo/pods/p/mapping?tenant=shop")).status).toBe(404);
    expect((await v1.ask("GET", "/vclusters/none")).status).toBe(404);
    expect((await v1.ask("GET", "/vclusters/demo?tenant=LAB")).status).toBe(404);
    await v1.ask("POST", "/vclusters/demo/stop?tenant=default");
    expect(meant()).toEqual(["demo", "default"]);
  });

  test("that are gone are asked about their backups by their tenants", async () => {
    const backups = async (path: string, as?: string) => {
      const { status, body } = await v1.ask("GET", path, given({ as }));
      return [status, body["backups"] ?? body["data"]];
    };
    const of = (tenant: string) => [
      200,
      [expect.objectContaining({ archive: `local:backup/${tenant}/left` })],
    ];
    expect(await backups("/tenants/shop/vclusters/left/backups", ANN)).toEqual(of("shop"));
    expect(await backups("/vclusters/left/backups?tenant=lab", BOB)).toEqual(of("lab"));
    // Each has one that he may see.
    expect(await backups("/vclusters/left/backups", ANN)).toEqual(of("shop"));
    expect(await backups("/vclusters/left/backups", BOB)).toEqual(of("lab"));
    expect(await backups("/vclusters/left/backups", EVE)).toEqual([409, { tenants: ["lab", "shop"] }]);
    expect((await backups("/tenants/lab/vclusters/left/backups", ANN))[0]).toBe(403);
    expect((await backups("/vclusters/none/backups", ANN))[0]).toBe(403);
    expect((await backups("/vclusters/none/backups"))[0]).toBe(404);
    expect((await backups("/tenants/shop/vclusters/none/backups", ANN))[0]).toBe(404);
    // Nothing else is asked of what is gone.
    expect((await v1.ask("GET", "/tenants/shop/vclusters/left/kubeconfig", { as: ANN })).status).toBe(404);
  });

  test("what is written says it in the body, too", async () => {
    const labels = (namespace?: string) =>
      v1.ask("PATCH", "/vclusters/demo", { body: { metadata: { labels: { a: "b" }, namespace } } });
    expect((await labels()).status).toBe(409);
    expect(await labels("lab")).toMatchObject({ status: 200, body: { metadata: { namespace: "lab" } } });
    const shown = (await v1.ask("GET", "/vclusters")).body.items;
    expect(shown).toMatchObject([{ metadata: { labels: { a: "b" } } }, { metadata: { labels: {} } }]);
    const moved = { body: { metadata: { namespace: "shop", labels: {} } } };
    expect(await v1.ask("PATCH", "/vclusters/demo?tenant=lab", moved)).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining("stays in tenant 'lab'") },
    });
    expect((await v1.ask("DELETE", "/vclusters/demo")).status).toBe(409);
    expect((await v1.ask("DELETE", "/vclusters/demo?tenant=lab")).status).toBe(200);
    expect((await v1.ask("DELETE", "/vclusters/demo")).body.metadata).toMatchObject({ namespace: "shop" });
  });

  test("a deletion that is told again is answered again, and takes no other one", async () => {
    const headers = { "Idempotency-Key": "once" };
    const path = "/vclusters/demo?tenant=lab";
    expect((await v1.ask("DELETE", path, { headers })).status).toBe(200);
    expect(await v1.ask("DELETE", path, { headers })).toMatchObject({
      status: 200,
      body: { metadata: { namespace: "lab" } },
    });
    const other = await v1.ask("DELETE", path, { headers: { "Idempotency-Key": "other" } });
    expect([other.status, other.body["detail"]]).toEqual([404, "there is no VirtualCluster 'demo'"]);
    expect((await v1.ask("GET", "/vclusters")).body.items).toHaveLength(1);
  });

  test("a plan is about the one of its tenant, and about the default one where it says none", async () => {
    const object = (namespace?: string) => ({
      apiVersion: "gpve.io/v1",
      kind: "VirtualCluster",
      metadata: { name: "demo", namespace },
      spec: {},
    });
    const objects = [object("shop"), object("lab"), object()];
    const { body } = await v1.ask("POST", "/plan", { body: { objects } });
    expect(body.items).toMatchObject([
      { action: "unchanged" },
      { action: "unchanged" },
      { action: "create" },
    ]);
    const twice = await v1.ask("POST", "/plan", { body: { objects: [object("shop"), object("shop")] } });
    expect(twice.body.items).toMatchObject([{ action: "unchanged" }, { action: "refused" }]);
    const foreign = await v1.ask("POST", "/plan", { body: { objects: [object("lab")] }, as: ANN });
    expect(foreign.body.items).toMatchObject([{ action: "refused", problem: { code: "access.denied" } }]);
  });

  test("one of before, whose name was everybody's, is found by its tenant and is in nobody's way", async () => {
    const spec = readVirtualClusterSpec({});
    const old = { name: "old", tenant: "shop", node: "n1", spec, madeBy: "r" };
    await v1.records.transact((tx) => tx.put(vclusterCollection, "old", old));
    for (const path of ["/vclusters/old", "/tenants/shop/vclusters/old", "/vclusters/old?tenant=shop"])
      expect((await v1.ask("GET", path, { as: ANN })).body.metadata).toMatchObject({ namespace: "shop" });
    expect((await v1.ask("GET", "/tenants/lab/vclusters/old", { as: BOB })).status).toBe(404);
    const body = { name: "old" };
    expect((await v1.ask("POST", "/vclusters", { body })).status).toBe(201);
    expect((await v1.ask("POST", "/tenants/lab/vclusters", { body, as: BOB })).status).toBe(201);
    expect((await v1.ask("POST", "/vclusters/old/stop", { as: ANN })).status).toBe(202);
    expect(meant()).toEqual(["old", "shop"]);
  });

  test("tenants whose clusters would have one name at a port they share do not both get it", async () => {
    expect(await make("LAB")).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining("demo.lab.vc.gpve") },
    });
  });

  test("keep their tenant: the next one of its name would have them", async () => {
    await make("shop");
    const refused = await v1.ask("DELETE", "/tenants/shop");
    expect([refused.status, refused.body["detail"]]).toEqual([
      409,
      expect.stringContaining("tenant 'shop' is not empty: virtual cluster 'demo' is of it"),
    ]);
    expect((await v1.ask("GET", "/tenants/shop")).status).toBe(200);
  });
});
