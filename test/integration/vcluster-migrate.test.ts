// The control plane of a virtual cluster goes from node to node of a lab, on real Kubernetes: with what is in its store, under
// its own keys, and back to where it was when the other node cannot have it. Whoever has a kubeconfig of before is led to it.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestLab, newLab, tracesOf } from "../support/lab.ts";
import { canRunClusters, components, ctl, kubectl } from "../support/vclusters.ts";

if (!canRunClusters)
  console.warn("SKIPPED: moves of virtual clusters need root and Kubernetes in this machine's cache");

describe.skipIf(!canRunClusters)("a virtual cluster that moves", () => {
  let lab: TestLab;
  const kubeconfig = (): string => join(lab.data, "demo.kubeconfig");
  const folder = (node: string, ...more: string[]): string =>
    join(lab.data, "nodes", node, "vclusters", ...more);

  const statusOf = async (): Promise<unknown> =>
    (JSON.parse((await ctl(lab, "get", "vc", "demo", "-o", "json")).out) as { status: unknown }).status;
  const getKubeconfig = async (): Promise<void> => {
    const got = await ctl(lab, "vc", "kubeconfig", "demo");
    expect(got).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
  };
  const secretIn = async (...flags: string[]): Promise<string> => {
    const said = await kubectl(kubeconfig(), "get", "secret", "word", "-o", "jsonpath={.data.is}", ...flags);
    return said.code === 0 ? Buffer.from(said.out, "base64").toString() : said.err;
  };
  const endpointOf = async (): Promise<string> => ((await statusOf()) as { endpoint: string }).endpoint;
  /** As it is reached by its name, at an address that others use too. */
  const secretAt = (server: string): Promise<string> =>
    secretIn("--server", server, "--tls-server-name", "demo.default.vc.gpve");

  beforeAll(async () => {
    lab = newLab({ GPVE_COMPONENTS: components });
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  }, 600_000);
  afterAll(() => lab?.remove(), 600_000);

  test("has all that it had on the other node, and leaves nothing behind", async () => {
    const made = await ctl(lab, "vc", "create", "demo", "--node", "n1", "--wait");
    expect(made).toMatchObject({ code: 0 });
    await getKubeconfig();
    const word = ["create", "secret", "generic", "word", "--from-literal=is=plugh"];
    expect(await kubectl(kubeconfig(), ...word)).toMatchObject({ code: 0 });
    const before = await endpointOf();
    const began = performance.now();
    expect(await ctl(lab, "vc", "migrate", "demo", "--to", "n2")).toMatchObject({ code: 0 });
    console.info(`moved in ${Math.round(performance.now() - began)} ms`);
    await expect.poll(() => statusOf(), { timeout: 150_000 }).toMatchObject({ node: "n2", phase: "Running" });
    // A node is told where it is a moment after it has left.
    await expect.poll(() => secretAt(before), { timeout: 150_000, interval: 500 }).toBe("plugh");
    expect(await secretIn()).toBe("plugh");
    expect(await endpointOf()).not.toBe(before);
    await getKubeconfig();
    expect(await secretIn()).toBe("plugh");
    const shared = before.replace(/:\d+$/, ":16442");
    for (const server of [shared, ...lab.credentials().urls]) expect(await secretAt(server)).toBe("plugh");
    expect(existsSync(folder("n1", "clusters", "demo"))).toBe(false);
    expect(existsSync(folder("n1", "store", "db", "demo"))).toBe(false);
    expect(existsSync(folder("n2", "arrivals", "demo"))).toBe(false);
  }, 900_000);

  test("goes on where it was when the other node cannot start it", async () => {
    // Where its API server's settings should go there is a folder: all of it comes, and nothing of it starts.
    mkdirSync(folder("n3", "clusters", "demo", "audit-policy.json"), { recursive: true });
    const moved = await ctl(lab, "vc", "migrate", "demo", "--to", "n3");
    expect(moved).toMatchObject({ err: expect.stringContaining("EISDIR") as string });
    await expect.poll(() => statusOf(), { timeout: 150_000 }).toMatchObject({ node: "n2", phase: "Running" });
    expect(await secretIn()).toBe("plugh");
    expect(existsSync(folder("n3", "clusters", "demo"))).toBe(false);
    expect(await ctl(lab, "vc", "migrate", "demo", "--to", "n2")).toMatchObject({
      err: expect.stringContaining("is on node 'n2' already") as string,
    });
  }, 900_000);

  test("comes back to the port that it had, and is led to from where it was last", async () => {
    const last = await endpointOf();
    expect(await ctl(lab, "vc", "migrate", "demo", "--to", "n1")).toMatchObject({ code: 0 });
    await expect.poll(() => secretAt(last), { timeout: 150_000, interval: 500 }).toBe("plugh");
    await getKubeconfig();
    expect(await secretIn()).toBe("plugh");
    expect(await endpointOf()).toMatch(/:16443$/);
    // A server waits for one that sleeps, as its node does.
    expect(await ctl(lab, "vc", "sleep", "demo")).toMatchObject({ code: 0 });
    const [url = ""] = lab.credentials().urls;
    expect(await secretAt(url)).toBe("plugh");
  }, 900_000);

  test("is gone from wherever it was when it is deleted", async () => {
    expect(await ctl(lab, "vc", "delete", "demo", "--yes")).toMatchObject({ code: 0 });
    const left = async (): Promise<string[]> =>
      (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));
    // What led to it ends when the nodes have heard that it is gone.
    await expect.poll(left, { timeout: 150_000, interval: 500 }).toEqual([]);
  }, 600_000);
});
