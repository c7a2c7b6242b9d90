import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const explanation = {
  node: "n1",
  strategy: "balanced",
  nodes: 2,
  feasible: 1,
  refused: { TaintToleration: 1 },
  weights: { LeastAllocated: 1, TopologySpread: 10 },
  verdicts: [
    { node: "n1", score: 80.5, parts: { LeastAllocated: 90, TopologySpread: 70 }, refusals: [] },
    { node: "n2", refusals: [{ filter: "TaintToleration", why: "its taint x:NoSchedule is not tolerated" }] },
  ],
};
const story = {
  id: "vm/100",
  node: "n1",
  decision: { at: "2026-01-01T00:00:00.000Z", by: "joe@pve", node: "n1", lost: 2, explanation },
  now: { ...explanation, node: "n2" },
  violations: [{ rule: "NodeAffinity", why: "its labels do not match 'disk=ssd'" }],
};

let ctl: Gpvectl;
beforeEach(async () => {
  ctl = await Gpvectl.create();
  ctl.api.pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }]);
});
afterEach(() => ctl[Symbol.asyncDispose]());

describe("explain", () => {
  test("tells what was decided, what does not hold and what would be decided now", async () => {
    ctl.api.on("GET /api/v1/virtualmachines/100/placement", { body: story });
    const { out, code } = await ctl.run(["explain", "vm", "web"]);
    expect(code).toBe(0);
    expect(out).toContain(
      "Placed on n1 at 2026-01-01T00:00:00.000Z for joe@pve, by balanced, after 2 places that others took first",
    );
    expect(out).toMatch(/^n1 \* +80\.5 +LeastAllocated 90, TopologySpread 70 \(x10\)$/m);
    expect(out).toMatch(/^n2 +- +TaintToleration: its taint x:NoSchedule is not tolerated$/m);
    expect(out).toContain("NodeAffinity does not hold: its labels do not match 'disk=ssd'");
    expect(out).toContain("Placed now, it would go to n2");
    expect(JSON.parse((await ctl.run(["explain", "vm", "100", "--output", "json"])).out)).toEqual(story);
    expect(out).not.toContain("It was moved since");
    ctl.api.on("GET /api/v1/virtualmachines/100/placement", { body: { ...story, node: "n3" } });
    expect((await ctl.run(["explain", "vm", "web"])).out).toContain("It was moved since; where HA did it");
  });

  test("says where nobody looked for a node, and what cannot be explained", async () => {
    const { decision: _decision, ...named } = { ...story, now: { ...explanation, node: undefined } };
    ctl.api.on("GET /api/v1/virtualmachines/100/placement", { body: named });
    const { out } = await ctl.run(["explain", "vm", "100"]);
    expect(out).toContain("Nobody looked for its node: it was named.");
    expect(out).toContain("it would go to nowhere");
    expect((await ctl.run(["explain", "pool", "x"])).err).toContain(
      "'pool' cannot be explained; vm and vc can",
    );
  });
});

describe("explain of a virtual cluster", () => {
  const cluster = {
    id: "vc/shop/demo",
    nodes: ["n1"],
    decisions: [
      { ...story.decision, part: "control-plane" },
      { ...story.decision, part: "standby", node: "n2", by: "", lost: 0 },
    ],
    now: explanation,
  };

  test("tells what was decided for each part, and where it would go now", async () => {
    ctl.api.on("GET /api/v1/tenants/shop/vclusters/demo/placement", { body: cluster });
    const { out, code } = await ctl.run(["explain", "vc", "shop/demo"]);
    expect(code).toBe(0);
    expect(out).toContain("Virtual cluster shop/demo is on n1.");
    expect(out).toContain(
      "Its control-plane was placed on n1 at 2026-01-01T00:00:00.000Z for joe@pve, by balanced, after 2 places that others took first: 1 of 2 nodes could take it, 1 refused by TaintToleration.",
    );
    expect(out).toContain("Its standby was placed on n2 at 2026-01-01T00:00:00.000Z, by balanced: 1 of 2");
    expect(out).toMatch(/^n2 +- +TaintToleration: its taint x:NoSchedule is not tolerated$/m);
    expect(out).not.toContain("moved since");
    expect(out).toContain("Placed now, it would go to n1 again: 1 of 2 nodes could take it");
    const moved = { ...cluster, nodes: ["n3"] };
    ctl.api.on("GET /api/v1/vclusters/demo/placement", { body: moved });
    expect((await ctl.run(["explain", "vc", "demo"])).out.match(/moved since/g)).toHaveLength(1);
    expect(JSON.parse((await ctl.run(["explain", "vc", "demo", "-o", "json"])).out)).toEqual(moved);
  });

  test("says where nobody looked for a node", async () => {
    ctl.api.on("GET /api/v1/vclusters/demo/placement", { body: { ...cluster, decisions: [] } });
    expect((await ctl.run(["explain", "vc", "demo"])).out).toContain("Its node was named");
  });
});

describe("simulate", () => {
  test("place asks for what was given, and shows every node", async () => {
    ctl.api.on("POST /api/v1/simulate/place", {
      body: { fits: true, placed: [{ id: "vm/simulated-1", node: "n1", score: 80 }], explanation },
    });
    const argv = [
      "simulate",
      "place",
      "--cores",
      "4",
      "--memory",
      "2048",
      "--storage",
      "shared",
      "--disk",
      "8",
    ];
    const ran = await ctl.run([
      ...argv,
      "--node-selector",
      "disk=ssd",
      "--apart-from",
      "app=web",
      "--label",
      "app=web",
      "--bridge",
      "vmbr0",
      "--gpus",
      "1",
      "--gpu-type",
      "A100",
    ]);
    expect(ran.out).toContain("n1 *");
    expect(ran.out + ran.err).toContain("It would go to n1.");
    expect(JSON.parse(ctl.api.last("POST /api/v1/simulate/place").body)).toEqual({
      cpu: 4,
      memoryBytes: 2 * 1024 ** 3,
      storage: { shared: 8 * 1024 ** 3 },
      bridges: ["vmbr0"],
      labels: { app: "web" },
      scheduling: {
        gpuCount: 1,
        gpuType: "A100",
        nodeAffinity: { required: ["disk=ssd"] },
        antiAffinity: { required: [{ guests: "app=web" }] },
      },
    });
  });

  test("place takes the parameters of every strategy", async () => {
    ctl.api.on("POST /api/v1/simulate/place", {
      body: { fits: true, placed: [{ id: "vm/simulated-1", node: "n1", score: 80 }], explanation },
    });
    const asked = async (...argv: readonly string[]): Promise<unknown> => {
      await ctl.run(["simulate", "place", ...argv]);
      return (JSON.parse(ctl.api.last("POST /api/v1/simulate/place").body) as Record<string, unknown>)[
        "scheduling"
      ];
    };
    const zone = "topology.gpve.io/zone";
    expect(await asked("--strategy", "ha-spread", "--topology-key", zone, "--max-skew", "2")).toEqual({
      strategy: "ha-spread",
      topologyKey: zone,
      maxSkew: 2,
    });
    expect(await asked("--strategy", "utilization", "--utilization-threshold", "70")).toEqual({
      strategy: "utilization",
      utilizationThreshold: 70,
    });
    expect(await asked("--strategy", "latency", "--near", "app=db", "--max-hops", "0")).toEqual({
      strategy: "latency",
      near: "app=db",
      maxHops: 0,
    });
  });

  test("place fails with the reasons where there is no room, and names what is wrong with options", async () => {
    const placed = ["1", "2"].map((at) => ({ id: `vm/simulated-${at}`, node: "n1", score: 1 }));
    ctl.api.on("POST /api/v1/simulate/place", { body: { fits: false, placed, explanation } });
    const ran = await ctl.run(["simulate", "place", "--count", "3"]);
    expect(ran.code).toBe(9);
    expect(ran.out).toMatch(/^vm\/simulated-2 +n1$/m);
    expect(ran.err).toContain("2 of 3 would be placed");
    expect((await ctl.run(["simulate", "place", "--disk", "3"])).err).toContain("--disk needs --storage");
    for (const [flag, value] of [
      ["--strategy", "best"],
      ["--kind", "pod"],
    ] as const) {
      const { code, err } = await ctl.run(["simulate", "place", flag, value]);
      expect([code, err]).toEqual([2, expect.stringContaining("Allowed choices are")]);
    }
    expect((await ctl.run(["simulate", "place", "--label", "x"])).err).toContain(
      "--label x is not KEY=VALUE",
    );
  });

  test("node-loss shows where guests would go, and fails where one would not", async () => {
    const restarted = [{ guest: "vm/100", from: "n2", to: "n1" }];
    ctl.api.on("POST /api/v1/simulate/node-loss", { body: { restarted, stranded: [], stopped: ["vm/9"] } });
    const good = await ctl.run(["simulate", "node-loss", "n2"]);
    expect(good.code).toBe(0);
    expect(good.out).toMatch(/^vm\/100 +n2 +n1/m);
    expect(good.err).toContain("1 more guest of theirs does not run.");
    const stranded = [
      {
        guest: "vm/101",
        from: "n2",
        why: "0 of 1",
        verdicts: [{ node: "n1", refusals: [{ why: "1 of 8 CPUs are free" }] }],
      },
      { guest: "vm/102", from: "n2", why: "its disk is gone", verdicts: [] },
    ];
    ctl.api.on("POST /api/v1/simulate/node-loss", { body: { restarted, stranded, stopped: [] } });
    const bad = await ctl.run(["simulate", "node-loss", "n2"]);
    expect(bad.code).toBe(9);
    expect(bad.out).toContain("n1: 1 of 8 CPUs are free");
    expect(bad.out).toContain("its disk is gone");
    expect(bad.err).toContain("2 of 3 running guests would find no place");
  });
});
