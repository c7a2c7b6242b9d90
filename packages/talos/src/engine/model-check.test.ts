// Random operations and accidents, thousands of them: whatever comes, no step of ours breaks etcd's quorum, begins etcd
// twice, or deletes what is not ours or still wanted. GPVE_MODEL_SEQUENCES sets how many, GPVE_MODEL_FIRST with which seed they begin.
import { expect, test } from "vitest";
import { ModelWorld } from "../testing/model-world.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { testDesired } from "../testing/test-desired.ts";
import { decide } from "./decide/decide.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Beginning, Desired } from "./desired.ts";
import { etcdHealth } from "./quorum.ts";
import type { SeenConfig } from "./world.ts";

const sequences = Number(process.env["GPVE_MODEL_SEQUENCES"] ?? 150);
const first = Number(process.env["GPVE_MODEL_FIRST"] ?? 1);

/** mulberry32: small, seeded, good enough. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const sizes = [1, 3, 5].flatMap((planes) =>
  [0, 1, 3].flatMap((workers) =>
    [
      { talos: "v1.13.9", cores: 4 },
      { talos: "v1.13.10", cores: 4 },
      { talos: "v1.13.9", cores: 6 },
      { talos: "v1.13.10", cores: 6 },
    ].map(({ talos, cores }, at) => {
      const pool = { name: "worker", count: workers, machine: { cores }, upgrade: { maxUnavailable: 2 } };
      return testDesired(
        testCluster({
          templates: [{}, { controlPlane: 998, worker: 999 }, { clone: "linked", controlPlane: 998 }][
            (planes + workers + at) % 3
          ],
          controlPlane: { count: planes, machine: { cores } },
          pools: workers === 0 ? [] : [pool],
          versions: { talos },
          endpoint: { vip: "10.0.0.9" },
          protect: { minWorkers: 0 },
        }),
      );
    }),
  ),
);

class Run {
  readonly world = new ModelWorld();
  readonly #random: () => number;
  readonly trace: string[] = [];
  #size: Desired;
  #beginning: Beginning | undefined;
  #replacing: readonly string[] = [];
  #resetting: readonly string[] = [];
  #acceptsDowntime = false;
  /** How many phases of rotations are over; three make a whole one. */
  #phase = 0;
  /** How many times the file came to ask for what takes a reboot. */
  #heavy = 0;
  #isRotating = false;

  constructor(seed: number) {
    this.#random = random(seed);
    this.#size = this.#one(sizes) as Desired;
  }

  get desired(): Desired {
    return {
      ...this.#size,
      beginning: this.#beginning,
      replacing: this.#replacing.filter((name) =>
        this.#size.machines.some((machine) => machine.name === name),
      ),
      resetting: this.#resetting.filter((name) =>
        this.#size.machines.some((machine) => machine.name === name),
      ),
      acceptsDowntime: this.#acceptsDowntime,
      config: (machine) => this.#config(machine, this.#phase),
      rotation: this.#isRotating ? this.#rotation(this.#phase) : undefined,
    };
  }

  #config(machine: Machine, phase: number): SeenConfig {
    const config = this.#size.config(machine);
    return { ...config, rest: `${config.rest}, heavy ${this.#heavy}, phase ${phase}` };
  }

  #rotation(phase: number): Desired["rotation"] {
    return {
      phase: (["accept", "issue", "remove"] as const)[(phase - 1) % 3] ?? "accept",
      next: () => {
        const next = phase % 3 === 0 ? phase : phase + 1;
        return { config: (machine) => this.#config(machine, next), rotation: this.#rotation(next) };
      },
    };
  }

  /** The world tells when a machine is more than a phase behind another: it would know nobody any more. */
  #rotated(): void {
    if (this.#phase % 3 === 0) this.#isRotating = false;
    else this.#phase += 1;
  }

  #one<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)];
  }

  /** Somebody works until he is stopped, something fails, or nothing is left to do. */
  work(rounds: number, failing: number): string {
    for (let round = 0; round < rounds; round++) {
      const seen = this.world.see(this.desired);
      const health = etcdHealth(seen);
      if (health !== undefined && health.healthy.size > 0 && this.#random() > failing / 2)
        this.#beginning = { machine: this.#beginning?.machine ?? "", doneAt: "seen" };
      const { steps, findings } = decide(this.desired, seen);
      if (steps.length === 0) return findings.map(({ id }) => id).join() || "done";
      for (const step of steps) {
        if (this.#random() < failing) return "killed before a step";
        try {
          if (step.kind === "etcd.bootstrap") this.#beginning ??= { machine: step.subject, doneAt: null };
          this.trace.push(`${step.kind} ${step.subject}`);
          this.world.act(step, this.desired);
        } catch {
          return `failed ${step.kind}`;
        }
        if (this.#random() < failing) return "killed after a step";
        if (step.kind === "record.rotated") this.#rotated();
        if (step.kind === "record.reset")
          this.#resetting = this.#resetting.filter((name) => name !== step.subject);
        if (step.kind === "record.replaced")
          this.#replacing = this.#replacing.filter((name) => name !== step.subject);
      }
    }
    return "still at it";
  }

  /** What others do, and what happens. */
  accident(): void {
    const machine = this.#one([...this.world.machines.values()]);
    const kind = Math.floor(this.#random() * 17);
    this.trace.push(`accident ${kind} ${machine?.name ?? ""}`);
    if (kind === 0) this.#size = this.#one(sizes) ?? this.#size;
    if (kind === 1) this.#replacing = [machine?.name ?? "", ...this.#replacing].slice(0, 3);
    if (kind === 2) this.#acceptsDowntime = !this.#acceptsDowntime;
    // The folder is lost and rebuilt from what is seen.
    if (kind === 3) this.#adopt();
    if (kind === 10) this.world.now += 3_600_000;
    if (kind === 11) this.#resetting = [machine?.name ?? "", ...this.#resetting].slice(0, 2);
    if ([12, 13].includes(kind) && !this.#isRotating) {
      this.#isRotating = true;
      this.#phase += 1;
    }
    if (kind === 16) this.#heavy += 1;
    if (machine === undefined) return;
    if (kind === 4) machine.isRunning = false;
    if (kind === 5) machine.isReachable = false;
    if (kind === 6) this.world.machines.delete(machine.name);
    if (kind === 7) machine.isReachable = true;
    if (kind === 8) machine.config = { ...machine.config, cores: "1" };
    // A machine that was reset by hand, without grace.
    if (kind === 9) Object.assign(machine, { isConfigured: false, hasEtcd: false });
    // Whoever asks may not see it any more, or its node is away; the next time it is as it was.
    if (kind === 14) machine.isHidden = !machine.isHidden;
    if (kind === 15) machine.isUnread = !machine.isUnread;
  }

  #adopt(): void {
    const health = etcdHealth(this.world.see(this.desired));
    this.world.formerly = new Map(
      [...this.world.machines.values()]
        .filter(({ isHidden }) => !isHidden)
        .map(({ name, role }) => [name, role]),
    );
    this.#replacing = [];
    this.#resetting = [];
    const isConfigured = [...this.world.machines.values()].some(
      (machine) =>
        machine.isConfigured &&
        !machine.isHidden &&
        !machine.isUnread &&
        machine.isRunning &&
        machine.isReachable,
    );
    this.#beginning = health !== undefined || isConfigured ? { machine: "", doneAt: "adopted" } : undefined;
  }

  heal(): void {
    for (const machine of this.world.machines.values())
      Object.assign(machine, { isRunning: true, isReachable: true, isHidden: false, isUnread: false });
    this.#acceptsDowntime = true;
  }
}

/** How a cluster may end that cannot be made whole without a person. */
const ENDS =
  /^(done|etcd-lost|quorum-lost|quorum-at-risk|bootstrap-unsure|etcd-unhealthy|disk-shrinks|failed etcd\.join)$/;

test(`${sequences} sequences of operations and accidents break nothing`, () => {
  const ends = new Map<string, number>();
  let rotations = 0;
  let clones = 0;
  for (let seed = first; seed < first + sequences; seed++) {
    const run = new Run(seed);
    for (let turn = 0; turn < 12; turn++) {
      run.work(60, 0.03);
      run.accident();
    }
    run.heal();
    const end = run.work(400, 0);
    ends.set(end, (ends.get(end) ?? 0) + 1);
    rotations += run.trace.filter((line) => line === "record.rotated remove").length;
    clones += run.trace.filter((line) => line.startsWith("guest.clone ")).length;
    const story = `seed ${seed}: ${run.trace.slice(-40).join(", ")}`;
    expect(run.world.broken, story).toEqual([]);
    expect(end, story).toMatch(ENDS);
  }
  // Most of them end well, or the check checks nothing.
  expect(ends.get("done") ?? 0).toBeGreaterThan(sequences / 3);
  expect(clones).toBeGreaterThan(sequences);
  expect(rotations).toBeGreaterThan(sequences / 3);
}, 3_600_000);
