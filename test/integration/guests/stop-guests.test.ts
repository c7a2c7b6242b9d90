import { existsSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stopGuests } from "@gpve/agent/stop-guests.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests, processesOf } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED stopping all guests: ${missing}`);

describe.skipIf(missing !== undefined)("stopping all guests of a data directory", () => {
  let world: GuestWorld;

  beforeAll(async () => {
    world = await guestWorld();
  });

  afterAll(async () => {
    await world?.clean();
  });

  it("asks them first, stops those that do not listen, and leaves nothing", async () => {
    const guests = world.guests();
    await guests.startQemu(bootable("800", world.disk("800.raw", "halt")));
    // Paused: it switches itself off as soon as it is let go on.
    await guests.startQemu(bootable("801", world.disk("801.raw", "powerOff"), { args: ["-S"] }));
    await guests.start({
      id: "800-tpm",
      label: "helper",
      program: "/usr/bin/sleep",
      args: ["1000"],
      files: [],
    });
    guests.close();
    const ended = await stopGuests(world.data, { log: silentLogger, timeoutMs: 3_000 });
    expect(ended).toEqual({ shutDown: 1, stopped: 1, unreachable: [] });
    await expect.poll(() => processesOf(world.data.path)).toEqual([]);
    expect(readdirSync(world.data.file("run", "guests"))).toEqual([]);
    expect(await stopGuests(world.data, { log: silentLogger, timeoutMs: 100 })).toEqual({
      shutDown: 0,
      stopped: 0,
      unreachable: [],
    });
    expect(existsSync(`/sys/fs/cgroup/cpu/gpve-${world.data.instanceId}`)).toBe(false);
  });

  it("stops the last started first, and waits for it", async () => {
    const guests = world.guests();
    const pids = new Map<string, number>();
    for (const [id, startup] of [
      ["810", "order=1"],
      ["811", "order=2,down=1"],
    ] as const) {
      const disk = world.disk(`${id}.raw`, "halt");
      pids.set(id, (await guests.startQemu({ ...bootable(id, disk), note: { startup } })).pid);
    }
    guests.close();
    const gone: string[] = [];
    const look = setInterval(() => {
      for (const [id, pid] of pids) if (!gone.includes(id) && !existsSync(`/proc/${pid}`)) gone.push(id);
    }, 10);
    const ended = await stopGuests(world.data, { log: silentLogger, timeoutMs: 2_000 });
    expect(ended).toMatchObject({ stopped: 2 });
    await expect.poll(() => gone).toEqual(["811", "810"]);
    clearInterval(look);
  });
});
