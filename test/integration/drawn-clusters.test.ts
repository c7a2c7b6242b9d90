// The requests about virtual clusters as they were drawn before there was a product (appendix C of the design that `../shared`
// has, or GPVE_SEEDS), word for word but for the versions, to a gpve with real Kubernetes. Three workers and then five: part
// of the long run.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drawnRequests, type DrawnRequest } from "@gpve/server/testing/drawn-requests.ts";
import { type Api, apiOf, type Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import { cachedVersions, canRunClusters, kubectl, startWithComponents } from "../support/vclusters.ts";

const drawing = drawnRequests("C.2", "/api/v1");
const [newest = "", ...others] = cachedVersions();
const minorOf = (version: string): number => Number(version.split(".")[1]);
const before = others.find((version) => minorOf(version) === minorOf(newest) - 1);
const lacking =
  drawing.lacking ??
  (canRunClusters ? undefined : "virtual clusters need root, and Kubernetes in this machine's cache");
if (lacking !== undefined) console.warn(`SKIPPED: virtual clusters as drawn: ${lacking}`);
else if (before === undefined)
  console.warn(`SKIPPED: the upgrade as drawn needs the minor before ${newest} in this machine's cache`);

const LONG_MS = 900_000;

describe.skipIf(lacking !== undefined)("virtual clusters as drawn", { timeout: LONG_MS }, () => {
  let gpve: Gpve;
  let api: Api;

  beforeAll(async () => {
    gpve = await startWithComponents();
    api = apiOf(gpve.credentials, undefined, "/api/v1");
    const made = await apiOf(gpve.credentials)("POST", "/pools", { poolid: "shop" });
    expect(made.status, made.text).toBe(200);
  }, LONG_MS);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  const send = async ({ method, path, body }: DrawnRequest, more: Readonly<Record<string, unknown>> = {}) => {
    const at = path.replace("{tenantId}", "shop").replace("{name}", "dev-cluster");
    const raw = body === undefined ? undefined : JSON.stringify({ ...body, ...more });
    const headers: Record<string, string> =
      raw === undefined
        ? {}
        : { "content-type": "application/json", "content-length": String(Buffer.byteLength(raw)) };
    const answer = await api(method, at, {}, headers, raw);
    return { status: answer.status, body: JSON.parse(answer.text) as Answer };
  };
  interface Answer {
    readonly detail?: string;
    readonly errors?: Readonly<Record<string, string>>;
    readonly items?: readonly unknown[];
    readonly kubeconfig?: string;
    readonly spec?: { readonly isolationLevel: string };
    readonly status?: {
      readonly phase: string;
      readonly message?: string;
      readonly kubernetesVersion?: string;
      readonly vnodes: readonly { readonly ready?: boolean }[];
    };
  }

  const until = async (what: string, isSo: (answer: Answer) => boolean): Promise<void> => {
    const end = performance.now() + LONG_MS;
    for (;;) {
      const { body } = await send(drawing.find("GET", "/{name}"));
      if (body.status?.phase === "Failed") throw new Error(`${what}: ${body.status.message ?? ""}`);
      if (isSo(body)) return;
      if (performance.now() > end) throw new Error(`not in time: ${what}: ${JSON.stringify(body.status)}`);
      await sleep(500);
    }
  };
  const kubeconfig = (): string => join(gpve.data, "drawing.requests.kubeconfig");
  const readyNodes = async (): Promise<number> =>
    [...(await kubectl(kubeconfig(), "get", "nodes", "--no-headers")).out.matchAll(/^\S+ +Ready /gm)].length;

  test("with its level, where Kata is absent, the answer says what is missing, and nothing is left", async () => {
    const { status, body } = await send(drawing.find("POST", "/vclusters"), { kubernetesVersion: newest });
    console.info(body.detail);
    expect([status, body.detail]).toEqual([400, expect.stringContaining("containerd-shim-kata-v2")]);
    expect(body.errors).toHaveProperty(["spec.isolationLevel"]);
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toEqual([]);
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
  });

  test("its own version is refused with those that there are", async () => {
    const { status, body } = await send(drawing.find("POST", "/vclusters"), { isolationLevel: "L1" });
    console.info(body.detail);
    expect([status, body.detail]).toEqual([400, expect.stringContaining(newest)]);
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toEqual([]);
  });

  test("with L1 it is made as drawn: three workers, a kubeconfig that kubectl takes", async () => {
    const made = await send(drawing.find("POST", "/vclusters"), {
      kubernetesVersion: before ?? newest,
      isolationLevel: "L1",
    });
    expect([made.status, made.body.spec?.isolationLevel]).toEqual([201, "L1"]);
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toHaveLength(1);
    await until("it runs", ({ status }) => status?.phase === "Running");
    const { body } = await send(drawing.find("GET", "/kubeconfig"));
    writeFileSync(kubeconfig(), body.kubeconfig ?? "", { mode: 0o600 });
    await expect.poll(readyNodes, { timeout: LONG_MS }).toBe(3);
  });

  test("it is scaled as drawn", async () => {
    expect((await send(drawing.find("PATCH", "/scale"))).status).toBe(202);
    await expect.poll(readyNodes, { timeout: LONG_MS }).toBe(5);
    await until("it runs again", ({ status }) => status?.phase === "Running");
  });

  test.skipIf(before === undefined)("it is upgraded as drawn", async () => {
    const minor = newest.split(".").slice(0, 2).join(".");
    expect((await send(drawing.find("POST", "/upgrade"), { targetVersion: minor })).status).toBe(202);
    await until(
      "it runs the next minor",
      ({ status }) => status?.phase === "Running" && status.kubernetesVersion === newest,
    );
    await expect.poll(readyNodes, { timeout: LONG_MS }).toBe(5);
  });

  test("it is deleted as drawn, without a trace", async () => {
    expect((await send(drawing.find("DELETE", "/{name}"))).status).toBeLessThan(300);
    await expect
      .poll(async () => (await send(drawing.find("GET", "/{name}"))).status, { timeout: LONG_MS })
      .toBe(404);
    expect((await send(drawing.find("GET", "/vclusters"))).body.items).toEqual([]);
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
  });
});
