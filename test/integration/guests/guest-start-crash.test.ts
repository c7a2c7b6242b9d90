// Whoever starts a guest may be killed at any moment of it: afterwards the guest either runs and is adopted, or there
// is nothing of it, and it can be started.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startChild } from "@gpve/kit/testing/child.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests, processesOf } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED crashes during a start: ${missing}`);

const MOMENTS_MS = [0, 5, 10, 15, 20, 30, 40, 60, 80, 120, 180, 250];

describe.skipIf(missing !== undefined)("a start whose agent is killed", () => {
  let world: GuestWorld;

  beforeAll(async () => {
    world = await guestWorld(mkdtempSync(join(tmpdir(), "gpve-guests-")));
  });

  afterAll(async () => {
    await world?.clean();
  });

  it.each(MOMENTS_MS)("after %i ms is either done or undone", async (moment) => {
    const id = String(700 + moment);
    const child = startChild(process.execPath, [
      "--disable-warning=ExperimentalWarning",
      join(import.meta.dirname, "start-one-child.ts"),
      world.data.path,
      id,
    ]);
    await expect.poll(() => child.output(), { timeout: 150_000, interval: 5 }).toContain("go");
    await new Promise((resolve) => setTimeout(resolve, moment));
    child.signal("SIGKILL");
    await child.exited;

    const guests = world.guests();
    const found = await guests.adopt();
    expect(found.unreachable).toEqual([]);
    expect(found.ended).toEqual([]);
    for (const guest of found.running) {
      expect(await guests.qemu(guest.id)?.qmp.execute("query-status")).toMatchObject({ running: true });
      await guest.kill();
    }
    await expect.poll(() => processesOf(world.data.path), { timeout: 150_000 }).toEqual([]);
    const again = await guests.startQemu(bootable(id, world.disk(`${id}.raw`, "halt")));
    await again.kill();
    await guests.forget(id);
    guests.close();
  });
});
