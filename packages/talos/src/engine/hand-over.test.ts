// A VIP goes from blue to green and back: on stand-ins with the real configurations, and in a model with kills and accidents.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Cluster } from "../cluster/cluster.ts";
import { readLock } from "../folder/lock-file.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { ModelWorld } from "../testing/model-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { testDesired } from "../testing/test-desired.ts";
import { decide } from "./decide/decide.ts";
import type { Desired } from "./desired.ts";
import {
  type HandOverSide,
  type HandOverStep,
  nextOfHandOver,
  runHandOver,
  type SeenSide,
} from "./hand-over.ts";
import { makeTrace } from "./make-trace.ts";
import type { OpenCluster } from "./open-cluster.ts";

const front = "10.0.0.5";
const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };
const blue = (holds: boolean): Cluster =>
  testCluster({
    metadata: { name: "blue" },
    network,
    endpoint: { vip: "10.0.0.9", front: { vip: front, holds } },
  });
const green = (holds: boolean): Cluster =>
  testCluster({
    metadata: { name: "green" },
    network: { ...network, ipam: { controlPlaneOffset: 60, workerOffset: 70 } },
    vmids: { controlPlane: "2500-2599", worker: "3500-3599", template: "9100-9199" },
    endpoint: { vip: "10.0.0.59", front: { vip: front, holds } },
  });

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-vip-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const clock = instantClock();

function opened(world: FakeWorld, cluster: Cluster, secrets: SecretsBundle): OpenCluster {
  return openedCluster(world, { folder, cluster, secrets, clock });
}

test("on machines: blue gives it up before green gets it, no machine reboots, and it goes back", async () => {
  // Each has a world of its own: their Kubernetes must not mix.
  const worlds = { old: new FakeWorld(), new: new FakeWorld() };
  const holds = { old: true, new: false };
  const bundle = await testBundle();
  const another = { ...bundle.cluster, id: Buffer.alloc(32, 7).toString("base64url") };
  const secrets = { old: bundle, new: { ...bundle, cluster: another } };
  const open = (side: HandOverSide) =>
    opened(worlds[side], (side === "old" ? blue : green)(holds[side]), secrets[side]);
  const announcing = (side: HandOverSide) =>
    [...worlds[side].machines.values()].filter(({ config }) => config?.text.includes(`name: ${front}\n`))
      .length;
  const boots = () =>
    Object.values(worlds).flatMap((world) => [...world.machines.values()].map(({ bootId }) => bootId));
  await open("old").apply();
  await open("new").apply();
  expect([announcing("old"), announcing("new")]).toEqual([3, 0]);
  const before = boots();
  const steps: HandOverStep[] = [];
  const turn = (from: HandOverSide, to: HandOverSide) => {
    const of = (side: HandOverSide): HandOverSide => (side === "old" ? from : to);
    return runHandOver({
      look: async (side) => {
        expect(announcing("old") * announcing("new")).toBe(0);
        const cluster = open(of(side));
        const { steps: left, findings } = makeTrace(cluster.desired(), await cluster.observe());
        return { name: of(side), holds: holds[of(side)], steps: left, findings };
      },
      write: (side, value) => {
        holds[of(side)] = value;
      },
      apply: async (side) => {
        expect((await open(of(side)).apply()).findings).toEqual([]);
      },
      report: (step) => steps.push(step),
    });
  };
  await turn("old", "new");
  expect(steps).toEqual(["give-up", "apply-old", "take", "apply-new", "done"]);
  expect([announcing("old"), announcing("new")]).toEqual([0, 3]);
  expect(readLock(folder, "green")).toMatchObject({ front });
  // By hand, blue does not get it while green has it.
  holds.old = true;
  await expect(open("old").apply()).rejects.toMatchObject({ data: { finding: "front-held" } });
  holds.old = false;
  await turn("new", "old");
  expect([announcing("old"), announcing("new")]).toEqual([3, 0]);
  expect(readLock(folder, "green").front).toBeUndefined();
  expect(boots()).toEqual(before);
}, 600_000);

const step = (kind: string) => ({ kind, subject: "x" }) as unknown as SeenSide["steps"][number];
const side = (holds: boolean, ...kinds: readonly string[]): SeenSide => ({
  name: holds ? "holder" : "other",
  holds,
  steps: kinds.map(step),
  findings: [],
});

test("whatever could leave it with both, or a cluster half changed, is refused", () => {
  const no = (old: SeenSide, next: SeenSide) => {
    try {
      return nextOfHandOver(old, next);
    } catch (err) {
      return (err as { data: { finding: string } }).data.finding;
    }
  };
  expect(no(side(true), side(true))).toBe("front-held");
  expect(no(side(false, "talos.reconfigure"), side(true))).toBe("front-held");
  expect(no(side(true), side(false, "talos.upgrade"))).toBe("front-unready");
  expect(no(side(false, "guest.start"), side(false))).toBe("front-unready");
  expect(no(side(false, "talos.reconfigure"), side(false))).toBe("apply-old");
  const finding = { id: "etcd-lost", severity: "error", subject: "etcd", evidence: "gone" } as const;
  expect(no({ ...side(true), findings: [finding] }, side(false))).toBe("front-unready");
});

test("a front lies in the network, is nobody else's, and stands beside a VIP only where a card may have two", () => {
  const of =
    (endpoint: object, versions = { talos: "v1.13.9" }) =>
    () =>
      testCluster({ endpoint, versions });
  expect(of({ vip: "10.0.0.9", front: { vip: "10.9.0.5" } })).toThrow(/outside the machines' network/);
  expect(of({ vip: "10.0.0.9", front: { vip: "10.0.0.9" } })).toThrow(/is the VIP's address/);
  expect(of({ vip: "10.0.0.9", front: { vip: front } }, { talos: "v1.11.5" })).toThrow(/v1.12 or newer/);
  expect(of({ dns: "k8s.example.org", front: { vip: front } }, { talos: "v1.11.5" })).not.toThrow();
});

const sequences = Number(process.env["GPVE_MODEL_SEQUENCES"] ?? 60);

/** Read once: files are slow to read. */
const bases = {
  old: { with: testDesired(blue(true)), without: testDesired(blue(false)) },
  new: { with: testDesired(green(true)), without: testDesired(green(false)) },
};

/** Two clusters of the model, one VIP. */
class Pair {
  readonly worlds = { old: new ModelWorld(), new: new ModelWorld() };
  readonly holds = { old: true, new: false };
  readonly broken: string[] = [];
  readonly #random: () => number;

  constructor(seed: number) {
    let state = seed;
    this.#random = () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
      return state / 0x7fffffff;
    };
  }

  desired(which: HandOverSide): Desired {
    const base = bases[which][this.holds[which] ? "with" : "without"];
    const isBegun = this.worlds[which].members.size > 0;
    return {
      ...base,
      beginning: isBegun ? { machine: "", doneAt: "seen" } : undefined,
      config: (machine) => ({
        ...base.config(machine),
        rest: `${machine.name}${machine.role === "controlplane" && this.holds[which] ? " announces" : ""}`,
      }),
    };
  }

  work(which: HandOverSide, failing: number): void {
    for (let round = 0; round < 80; round += 1) {
      const { steps } = decide(this.desired(which), this.worlds[which].see(this.desired(which)));
      if (steps.length === 0) return;
      for (const each of steps) {
        if (this.#random() < failing) throw new Error("killed");
        this.worlds[which].act(each, this.desired(which));
        if (this.announcing("old") && this.announcing("new"))
          this.broken.push(`${each.kind} ${each.subject}: both`);
      }
    }
  }

  announcing(which: HandOverSide): boolean {
    return [...this.worlds[which].machines.values()].some(
      ({ isRunning, isConfigured, rest }) => isRunning && isConfigured && rest.endsWith(" announces"),
    );
  }

  look(which: HandOverSide): SeenSide {
    const desired = this.desired(which);
    const { steps, findings } = makeTrace(desired, this.worlds[which].see(desired));
    return { name: which, holds: this.holds[which], steps, findings };
  }

  async turn(failing: number): Promise<string> {
    try {
      await runHandOver({
        look: async (which) => this.look(which),
        write: (which, value) => {
          if (this.#random() < failing) throw new Error("killed");
          this.holds[which] = value;
        },
        apply: async (which) => this.work(which, failing),
        report: () => undefined,
      });
      return "done";
    } catch (err) {
      return (err as { data?: { finding?: string } }).data?.finding ?? (err as Error).message;
    }
  }

  accident(): void {
    const which = this.#random() < 0.6 ? "old" : "new";
    const machines = [...this.worlds[which].machines.values()];
    const machine = machines[Math.floor(this.#random() * machines.length)];
    if (machine === undefined) return;
    const kind = Math.floor(this.#random() * 5);
    if (kind === 0) machine.isRunning = false;
    if (kind === 1) machine.isReachable = false;
    if (kind === 2) machine.isReachable = true;
    if (kind === 3) machine.isRunning = true;
    if (kind === 4) machine.config = { ...machine.config, cores: "1" };
    if (this.announcing("old") && this.announcing("new")) this.broken.push(`accident ${kind}: both`);
  }
}

test(`${sequences} hand-overs with kills and accidents never leave the VIP with both`, async () => {
  const ends = new Map<string, number>();
  for (let seed = 1; seed <= sequences; seed += 1) {
    const pair = new Pair(seed);
    pair.work("old", 0);
    pair.work("new", 0);
    for (let turn = 0; turn < 4; turn += 1) {
      await pair.turn(0.15);
      pair.accident();
    }
    for (const world of Object.values(pair.worlds))
      for (const machine of world.machines.values()) Object.assign(machine, { isReachable: true });
    pair.work("old", 0);
    pair.work("new", 0);
    const end = await pair.turn(0);
    ends.set(end, (ends.get(end) ?? 0) + 1);
    expect(pair.broken, `seed ${seed}`).toEqual([]);
    expect(end, `seed ${seed}`).toMatch(/^(done|front-unready|front-held)$/);
    if (end === "done") expect(pair.announcing("new"), `seed ${seed}`).toBe(true);
  }
  expect(ends.get("done") ?? 0).toBeGreaterThan(sequences / 3);
}, 3_600_000);
