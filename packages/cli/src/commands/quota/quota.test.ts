import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const QUOTA = {
  apiVersion: "gpve.io/v1",
  kind: "ResourceQuota",
  metadata: {
    name: "shop",
    namespace: "shop",
    uid: "u",
    labels: {},
    annotations: {},
    resourceVersion: "1",
    generation: 1,
  },
  spec: { limits: { cpu: 8 } },
  status: {
    hard: { limits: { cpu: 8, memory: "16Gi", storages: { local: "1Ti" } }, requests: { cpu: 4 } },
    used: { limits: { cpu: 3, memory: "1Gi", storages: { local: "32Gi" } }, requests: { cpu: 1 } },
    exceeded: [],
  },
};
const LIST = {
  apiVersion: "gpve.io/v1",
  kind: "ResourceQuotaList",
  metadata: { resourceVersion: "1" },
  items: [QUOTA],
};

test("shows what is used beside what is allowed", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("GET /api/v1/resourcequotas", { body: LIST });
  const { code, out } = await ctl.run(["quota", "show", "shop"]);
  expect(code).toBe(0);
  expect(out.split("\n").map((line) => line.replaceAll(/ +/g, " ").trim())).toEqual([
    "TENANT QUOTA RESOURCE USED HARD",
    "shop shop limits.cpu 3 8",
    "shop shop limits.memory 1Gi 16Gi",
    "shop shop limits.storages.local 32Gi 1Ti",
    "shop shop requests.cpu 1 4",
    "",
  ]);
  const json = await ctl.run(["quota", "show", "--output", "json"]);
  expect(JSON.parse(json.out)).toMatchObject({ items: [{ metadata: { namespace: "shop" } }] });
});

test("says that a tenant has none", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("GET /api/v1/resourcequotas", { body: LIST });
  const { code, err } = await ctl.run(["quota", "show", "lab"]);
  expect(code).toBe(5);
  expect(err).toContain("tenant 'lab' has no quota");
});

test("changes only what is named, and takes away what is left empty", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("GET /api/v1/resourcequotas/shop", { body: QUOTA });
  ctl.api.on("PATCH /api/v1/resourcequotas/shop", { body: QUOTA });
  const bounds = ["cpu=4", "memory=", "storages.local=2Ti", "requests.vmCount=3", "overcommit.cpu=1.5"];
  expect(await ctl.run(["quota", "set", "shop", ...bounds])).toMatchObject({ code: 0 });
  expect(JSON.parse(ctl.api.last("PATCH /api/v1/resourcequotas/shop").body)).toEqual({
    spec: {
      limits: { cpu: 4, memory: null, storages: { local: "2Ti" } },
      requests: { vmCount: 3 },
      overcommit: { cpu: 1.5 },
    },
  });
  expect(await ctl.run(["quota", "set", "shop", "cpu"])).toMatchObject({ code: 2 });
});

test("makes the quota of a tenant that has none", async () => {
  await using ctl = await Gpvectl.create();
  const problem = { code: "object.not_found", detail: "there is no ResourceQuota 'shop'", status: 404 };
  ctl.api.on("GET /api/v1/resourcequotas/shop", { status: 404, body: problem });
  ctl.api.on("POST /api/v1/resourcequotas", { body: QUOTA });
  expect(await ctl.run(["quota", "set", "shop", "memory=4Gi"])).toMatchObject({ code: 0 });
  expect(JSON.parse(ctl.api.last("POST /api/v1/resourcequotas").body)).toMatchObject({
    metadata: { name: "shop", namespace: "shop" },
    spec: { limits: { memory: "4Gi" } },
  });
});

test("says what is over a quota that is smaller than what is there", async () => {
  await using ctl = await Gpvectl.create();
  const over = { ...QUOTA, status: { ...QUOTA.status, exceeded: ["limits.cpu"] } };
  ctl.api.on("GET /api/v1/resourcequotas/shop", { body: QUOTA });
  ctl.api.on("PATCH /api/v1/resourcequotas/shop", { body: over });
  const { code, err } = await ctl.run(["quota", "set", "shop", "cpu=1"]);
  expect(code).toBe(0);
  expect(err).toContain("It uses more than that already: limits.cpu. What is there stays");
});
