// A virtual cluster whose node is lost goes on from its standby on another one, on real Kubernetes: with everything that was
// answered, at the address that clients know, and the node that comes back gives way. A long run (GPVE_VC_STANDBY=1).
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type TestLab, newLab, tracesOf } from "../support/lab.ts";
import { canRunClusters, components, ctl, kubectl } from "../support/vclusters.ts";

const canRun = canRunClusters && process.env["GPVE_VC_STANDBY"] === "1";
if (!canRun)
  console.warn(
    "SKIPPED: standbys of virtual clusters need GPVE_VC_STANDBY=1, root and Kubernetes in this machine's cache",
  );

interface Shown {
  readonly node: string;
  readonly phase: string;
  readonly vnodes: readonly { readonly node: string }[];
  readonly standby?: { readonly node: string; readonly inSync: boolean };
  readonly recovered?: { readonly from: string; readonly mayHaveLostSeconds: number };
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message?: string;
  }[];
}

const POLL = { timeout: 300_000, interval: 1_000 };

/** A database of the process of all stores, and an etcd of its own. */
const tiers = describe.skipIf(!canRun).each(["Standard", "Performance"]);

tiers("a virtual cluster of tier %s with a standby", (tier) => {
  let lab: TestLab;
  const kubeconfig = (): string => join(lab.data, "demo.kubeconfig");
  const shown = async (name = "demo"): Promise<Shown> => {
    const said = await ctl(lab, "get", "vc", name, "-o", "json");
    expect(said).toMatchObject({ code: 0 });
    return (JSON.parse(said.out) as { status: Shown }).status;
  };
  const inSync = async (name = "demo"): Promise<unknown> =>
    (await shown(name)).conditions.find(({ type }) => type === "StandbyInSync");
  const events = async (): Promise<string> => (await ctl(lab, "vc", "events", "demo", "-o", "json")).out;
  const written: string[] = [];
  /** What was answered counts. */
  const write = async (name: string): Promise<boolean> => {
    const { code } = await kubectl(kubeconfig(), "create", "configmap", name);
    if (code === 0) written.push(name);
    return code === 0;
  };
  const missing = async (): Promise<readonly string[]> => {
    const said = await kubectl(kubeconfig(), "get", "configmaps", "-o", "name");
    expect(said).toMatchObject({ code: 0 });
    return written.filter((name) => !said.out.includes(`configmap/${name}\n`));
  };

  const available = async (): Promise<string> =>
    (await kubectl(kubeconfig(), "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"))
      .out;

  beforeAll(async () => {
    lab = newLab({ GPVE_COMPONENTS: components });
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  }, 600_000);
  afterAll(() => lab?.remove(), 600_000);

  test("says which node has everything that was answered", async () => {
    const argv = ["vc", "create", "demo", "--tier", tier, "--workers", "1", "--node", "n2", "--wait"];
    expect(await ctl(lab, ...argv)).toMatchObject({ code: 0 });
    const began = performance.now();
    await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True", reason: "InSync" });
    console.info(`in sync ${Math.round(performance.now() - began)} ms after it ran`);
    const got = await ctl(lab, "vc", "kubeconfig", "demo");
    expect(got).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
    for (let at = 0; at < 5; at++) expect(await write(`before-${at}`)).toBe(true);
    const image = "--image=gpve.local/busybox:1";
    const web = ["create", "deployment", "web", image, "--", "sleep", "100000"];
    expect(await kubectl(kubeconfig(), ...web)).toMatchObject({ code: 0 });
    await expect.poll(available, POLL).toBe("1");
  }, 900_000);

  test("goes on without a standby that is lost, says so, and has another one later", async () => {
    const { standby } = await shown();
    const lost = standby?.node ?? "";
    await lab.fault("cut", lost);
    const began = performance.now();
    while (!(await write(`without-${written.length}`)))
      expect(performance.now() - began).toBeLessThan(120_000);
    console.info(
      `a write was answered ${Math.round(performance.now() - began)} ms after its standby was cut off`,
    );
    expect(await inSync()).toMatchObject({ status: "False", reason: "StandbyAway" });
    await lab.fault("heal", lost);
    await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True" });
    expect(await missing()).toEqual([]);
  }, 900_000);

  test.runIf(tier === "Standard")(
    "takes writes, and stays where it is, while the agents of its nodes are away",
    async () => {
      const { node, standby } = await shown();
      const follower = standby?.node ?? "";
      await lab.fault("kill", node, "--agent-only");
      const began = performance.now();
      let slowest = 0;
      const writeTimed = async (): Promise<void> => {
        const at = performance.now();
        expect(await write(`no-agent-${written.length}`)).toBe(true);
        slowest = Math.max(slowest, performance.now() - at);
      };
      // Longer than a node whose store nobody hears keeps its clusters.
      while (performance.now() - began < 80_000) {
        await writeTimed();
        await sleep(2_000);
      }
      expect((await shown()).node).toBe(node);
      await lab.fault("kill", follower, "--agent-only");
      for (let at = 0; at < 5; at++) await writeTimed();
      console.info(`without agents a write took ${Math.round(slowest)} ms at most`);
      for (const each of [node, follower]) await lab.fault("heal", each);
      await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True" });
      expect(await shown()).toMatchObject({ node, standby: { node: follower }, phase: "Running" });
      expect(await missing()).toEqual([]);
    },
    900_000,
  );

  test("runs on the other node with everything that was answered when its own loses its power", async () => {
    const { node: lost, standby } = await shown();
    let isOver = false;
    const writing = (async () => {
      for (let at = 0; !isOver; at++) await write(`during-${at}`);
    })();
    await expect.poll(() => written.some((name) => name.startsWith("during-")), POLL).toBe(true);
    const began = performance.now();
    await lab.fault("kill", lost);
    isOver = true;
    await writing;
    await expect
      .poll(async () => (await shown()).node === standby?.node && (await write("after")), POLL)
      .toBe(true);
    console.info(
      `${written.length} objects; answers on ${standby?.node} ${Math.round(performance.now() - began)} ms after ${lost} lost its power`,
    );
    expect(await missing()).toEqual([]);
    expect(await shown()).toMatchObject({
      phase: "Running",
      recovered: { from: lost, mayHaveLostSeconds: 0 },
    });
    await expect.poll(events, POLL).toContain("nothing that was answered is lost");
    // Its worker is there too, with its name, and runs what was bound to it.
    await expect
      .poll(async () => (await kubectl(kubeconfig(), "get", "nodes", "--no-headers")).out, POLL)
      .toMatch(/^worker-1 +Ready /m);
    await expect.poll(async () => (await shown()).vnodes, POLL).toMatchObject([{ node: standby?.node }]);
    const pod = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"];
    await expect
      .poll(async () => {
        const { out: name } = await kubectl(kubeconfig(), ...pod);
        return (await kubectl(kubeconfig(), "exec", name.split(" ")[0] ?? "", "--", "echo", "here")).out;
      }, POLL)
      .toBe("here\n");
    console.info(`its worker runs its pod ${Math.round(performance.now() - began)} ms after the loss`);
    // The one that is left besides follows now.
    await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True" });
    // What comes back is another's: it serves nobody, and goes.
    await lab.fault("heal", lost);
    const left = (): boolean => existsSync(join(lab.data, "nodes", lost, "vclusters", "clusters", "demo"));
    await expect.poll(left, POLL).toBe(false);
    expect(await write("and-after")).toBe(true);
    expect(await missing()).toEqual([]);
  }, 900_000);

  test.runIf(tier === "Performance")(
    "moves, and has a standby again where it has gone",
    async () => {
      const { node, standby } = await shown();
      const to = ["n1", "n2", "n3"].find((each) => each !== node && each !== standby?.node) ?? "";
      expect(await ctl(lab, "vc", "migrate", "demo", "--to", to)).toMatchObject({ code: 0 });
      expect(await shown()).toMatchObject({ node: to, phase: "Running" });
      expect(await write("moved")).toBe(true);
      await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True" });
      expect(await missing()).toEqual([]);
    },
    900_000,
  );

  test.runIf(tier === "Performance")(
    "sleeps, cold and warm, and wakes with its standby",
    async () => {
      for (const mode of ["warm", "cold"]) {
        expect(await ctl(lab, "vc", "sleep", "demo", "--mode", mode)).toMatchObject({ code: 0 });
        const began = performance.now();
        // What only reads asks again by itself where the wake takes longer than its patience for a handshake.
        expect(await kubectl(kubeconfig(), "get", "namespaces")).toMatchObject({ code: 0 });
        expect(await write(`after-${mode}`)).toBe(true);
        console.info(`a write to one that slept (${mode}) took ${Math.round(performance.now() - began)} ms`);
        await expect.poll(() => inSync(), POLL).toMatchObject({ status: "True" });
      }
      expect(await missing()).toEqual([]);
    },
    900_000,
  );

  test("does not go out from a node that is cut off, and goes on elsewhere", async () => {
    const spec = { controlPlane: { tier }, networking: { egress: "nat" } };
    const object = { apiVersion: "gpve.io/v1", kind: "VirtualCluster", metadata: { name: "out" }, spec };
    const file = join(lab.data, "out.json");
    writeFileSync(file, JSON.stringify(object));
    expect(await ctl(lab, "apply", "-f", file)).toMatchObject({ code: 0 });
    await expect.poll(() => inSync("out"), POLL).toMatchObject({ status: "True" });
    const { node: lost } = await shown("out");
    const { instanceId } = JSON.parse(readFileSync(join(lab.data, "instance.json"), "utf8")) as {
      instanceId: string;
    };
    const inside = ["netns", "exec", `gpve-${instanceId}-${lost}`];
    const nft = async (...args: readonly string[]): Promise<string> =>
      (await exec("ip", [...inside, "nft", "list", ...args])).stdout;
    const isShut = async (): Promise<boolean> => {
      const [table = ""] = /gpve_vc_\S+/.exec(await nft("tables", "inet")) ?? [];
      const [forward = ""] = /chain forward \{[^]*?\n\t\}/.exec(await nft("table", "inet", table)) ?? [];
      const [shut, begun] = [
        forward.search(/iifname (?:"\S+"|\{[^}]*\}) drop/),
        forward.indexOf("established"),
      ];
      expect([shut > 0, begun > 0]).toEqual([true, true]);
      return shut < begun;
    };
    expect(await isShut()).toBe(false);
    const began = performance.now();
    await lab.fault("cut", lost);
    await expect.poll(isShut, POLL).toBe(true);
    console.info(
      `its ways out are shut ${Math.round(performance.now() - began)} ms after ${lost} was cut off`,
    );
    await expect
      .poll(async () => {
        const { node, phase } = await shown("out");
        return node !== lost && phase === "Running";
      }, POLL)
      .toBe(true);
    console.info(`it runs elsewhere ${Math.round(performance.now() - began)} ms after ${lost} was cut off`);
    await lab.fault("heal", lost);
    const left = (): boolean => existsSync(join(lab.data, "nodes", lost, "vclusters", "clusters", "out"));
    await expect.poll(left, POLL).toBe(false);
    expect(await ctl(lab, "vc", "delete", "out", "--yes")).toMatchObject({ code: 0 });
  }, 900_000);

  test("leaves nothing anywhere when it is deleted", async () => {
    expect(await ctl(lab, "vc", "delete", "demo", "--yes")).toMatchObject({ code: 0 });
    const left = async () =>
      (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));
    await expect.poll(left, { timeout: 150_000, interval: 1_000 }).toEqual([]);
    for (const node of ["n1", "n2", "n3"])
      for (const kept of ["clusters/demo", "store/standby/demo", "standbys/demo"])
        expect(existsSync(join(lab.data, "nodes", node, "vclusters", kept))).toBe(false);
  }, 600_000);
});
