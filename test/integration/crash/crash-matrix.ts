// Kills gpve at every point that an operation comes to, and at moments in between, on real QEMU. The points come from
// a run without trouble, so a step that is added is a step that is tested.
import { expect } from "vitest";
import type { CrashWorld } from "../../support/crash-world.ts";

/** Kills spread over the time that the operation takes: they hit the inside of steps. More of them in the long run. */
const KILLS_BETWEEN = Number(process.env["GPVE_CRASH_KILLS"] ?? 2);

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
  const points = world.points(each.type);
  expect(points.length).toBeGreaterThan(2);
  for (const point of points)
    await round(`killed ${point.phase} ${point.step}`, () => world.killedAt(point, ...each.request(world)));
  for (let kill = 1; kill <= KILLS_BETWEEN; kill++) {
    const ms = (durationMs * kill) / (KILLS_BETWEEN + 1);
    await round(`killed after ${ms.toFixed(0)} ms of ${durationMs.toFixed(0)}`, () =>
      world.killedAfter(ms, ...each.request(world)),
    );
  }
  return points.length + KILLS_BETWEEN;
}
