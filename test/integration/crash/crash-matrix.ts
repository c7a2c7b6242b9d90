// Kills gpve at points that an operation comes to, and at moments in between, on real QEMU. The points come from a run
// without trouble, so a step that is added is a step that is tested. Every run draws some of them, by a seed that it
// prints and takes back as GPVE_SEED; the long run goes through all.
import { expect } from "vitest";
import type { PointOfInterest } from "@gpve/kit/testing/kill-at.ts";
import type { CrashWorld } from "../../support/crash-world.ts";
import { generator } from "../../support/seeded.ts";

const LONG = process.env["GPVE_CRASH_KILLS"];
/** Kills spread over the time that the operation takes: they hit the inside of steps. */
const KILLS_BETWEEN = Number(LONG ?? 1);
const POINTS = 3;
const SEED = Number(process.env["GPVE_SEED"] ?? Date.now() % 1_000_000);
const random = generator(SEED);

export interface CrashCase {
  /** The engine's type of operation. */
  readonly type: string;
  readonly request: (
    world: CrashWorld,
  ) => readonly [method: string, path: string, params?: Record<string, string | number>];
  /** Before each run; the world is at rest. */
  readonly prepare?: (world: CrashWorld) => Promise<void>;
  /** After each run, besides what must always be true. */
  readonly check: (world: CrashWorld) => Promise<void>;
  /** Back to where it began. */
  readonly clean: (world: CrashWorld) => Promise<void>;
}

/** Gives how many points there are. */
export async function crashEverywhere(world: CrashWorld, each: CrashCase): Promise<number> {
  const round = async (what: string, run: () => Promise<void>): Promise<void> => {
    try {
      await each.prepare?.(world);
      await run();
      await world.expectSound();
      await each.check(world);
      await each.clean(world);
      await world.expectSound();
    } catch (error) {
      throw new Error(`${each.type}, ${what}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  };
  let durationMs = 0;
  world.points(each.type);
  await round("no trouble", async () => {
    const started = performance.now();
    await world.ok(...each.request(world));
    durationMs = performance.now() - started;
  });
  const all = world.points(each.type);
  expect(all.length).toBeGreaterThan(2);
  const points = LONG === undefined ? drawn(all) : all;
  console.log(`${each.type}, GPVE_SEED=${SEED}: killed at ${points.length} of ${all.length} points`);
  for (const point of points)
    await round(`killed ${point.phase} ${point.step}`, () => world.killedAt(point, ...each.request(world)));
  for (let kill = 1; kill <= KILLS_BETWEEN; kill++) {
    const ms = (durationMs * kill) / (KILLS_BETWEEN + 1);
    await round(`killed after ${ms.toFixed(0)} ms of ${durationMs.toFixed(0)}`, () =>
      world.killedAfter(ms, ...each.request(world)),
    );
  }
  return all.length;
}

/** As many as a run has time for, of as many phases as can be; in the order in which the operation comes to them. */
function drawn(points: readonly PointOfInterest[]): PointOfInterest[] {
  const shuffled = points
    .map((point) => ({ point, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ point }) => point);
  const firstOfPhases = shuffled.filter(
    ({ phase }, index) => shuffled.findIndex((other) => other.phase === phase) === index,
  );
  const chosen = new Set([...firstOfPhases, ...shuffled].slice(0, POINTS));
  return points.filter((point) => chosen.has(point));
}
