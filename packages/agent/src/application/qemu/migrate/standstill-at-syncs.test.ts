import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { expect, it } from "vitest";
import { FakeGuests } from "../../../testing/fake-guests.ts";
import type { SentInVain } from "./sent-in-vain.ts";
import { StandstillAtSyncs, type StandstillLimits } from "./standstill-at-syncs.ts";

const MIB = 1024 ** 2;
const at = (syncs: number, leftMiB: number, mbps = 0, fullMiB = 0): MigrationInfo => ({
  status: "active",
  ram: {
    transferred: 0,
    total: 128 * MIB,
    mbps,
    "dirty-pages-rate": 0,
    "dirty-sync-count": syncs,
    remaining: leftMiB * MIB,
    "normal-bytes": fullMiB * MIB,
  },
});

/** A guest whose QEMU tells of what the test says it has come to. */
async function emulated(limits: Partial<StandstillLimits> = {}) {
  const guests = new FakeGuests();
  let now = at(0, 0);
  let ms = 0;
  guests.answers.set("query-migrate", () => now);
  const start = { id: "7", label: "VM 7", program: "", args: [], files: [] };
  const guest = await guests.startQemu(start);
  const still = await StandstillAtSyncs.begin(guest, { lastMs: 50, patience: 1, ...limits });
  const status = async () => (await guest.qmp.execute("query-status")).status;
  return {
    guest,
    still,
    status,
    /** `later`: what is so by the time that it is asked again. */
    look: async (info: MigrationInfo, later = info, afterMs = 10) => {
      now = later;
      await still.look(info, (ms += afterMs));
      return status();
    },
    limits: () =>
      guest.qmp.commands
        .filter(({ name }) => name === "migrate-set-parameters")
        .map(({ args }) => Number(args["max-bandwidth"]) / MIB),
  };
}
const UNLIMITED = 2 ** 40 / MIB;

it("holds an emulated guest whenever changed pages are read, and for the rest", async () => {
  const { look, limits, still } = await emulated();
  const states: string[] = [];
  for (const [syncs, left, mbps] of [
    [0, 0],
    [1, 128],
    [1, 122],
    [1, 14],
    [1, 14],
    [1, 3],
    [2, 50],
    [2, 45],
    [2, 3],
    [3, 3, 1600],
    [3, 1],
  ] as const)
    states.push(await look(at(syncs, left, mbps)));
  expect(states.join(" ")).toBe(
    "paused running running paused paused paused running running paused paused paused",
  );
  expect(still.maxBandwidth).toBe(100 * MIB);
  // Nothing is held back while it stands still.
  expect(limits()).toEqual([UNLIMITED, 100, UNLIMITED]);
});

it("sends the slower the nearer the end is, and slower still where looks come late", async () => {
  const { look, limits } = await emulated();
  expect(await look(at(1, 44))).toBe("paused");
  // QEMU sends what it may in bursts, ten a second.
  for (const left of [44, 24, 14, 9, 6.5, 5.25])
    for (let times = 0; times < 12; times++) expect(await look(at(2, left))).toBe("running");
  expect(limits()).toEqual([UNLIMITED, 100, 50, 25, 12.5, 6.25, 4]);
  const late = await emulated();
  for (const left of [128, 104, 84, 64, 44, 34, 29])
    expect(await late.look(at(1, left), undefined, 200)).toBe("running");
  expect(late.limits()).toEqual([80, 60, 40, 30, 25]);
});

it("holds a small guest for its whole first pass: an empty one is sent before anybody looks again", async () => {
  const { look, limits } = await emulated();
  for (const left of [96, 50, 2]) expect(await look(at(1, left))).toBe("paused");
  expect(await look(at(2, 0))).toBe("paused");
  expect(limits()).toEqual([UNLIMITED]);
});

it("lets a guest go on whose rest would take longer than it may stand still", async () => {
  const { look, still } = await emulated({ bytesPerSecond: 10 * MIB });
  expect(still.maxBandwidth).toBe(10 * MIB);
  expect(await look(at(1, 128, 80))).toBe("running");
  expect(await look(at(1, 127, 80))).toBe("running");
  expect(await look(at(1, 3.9, 80))).toBe("paused");
  expect(await look(at(2, 10, 80))).toBe("running");
});

it("does not let it go on where the end of the next pass has come meanwhile", async () => {
  const { look, limits } = await emulated();
  expect(await look(at(1, 60), at(1, 3))).toBe("paused");
  expect(await look(at(2, 60), { ...at(2, 0), status: "completed" })).toBe("paused");
  expect(limits()).toEqual([UNLIMITED, 100, UNLIMITED]);
});

it("trusts nothing that was read while the guest ran", async () => {
  const seen = await emulated();
  await seen.look(at(1, 128));
  await expect(seen.look(at(2, 60))).rejects.toThrow("one may have been missed. It runs on here;");
  const late = await emulated({ bytesPerSecond: 10 * MIB });
  await late.look(at(1, 128));
  await expect(late.look(at(1, 1), at(2, 10))).rejects.toThrow("one may have been missed");
  const over = await emulated();
  await over.look(at(1, 128));
  await expect(over.look({ ...at(3, 0), status: "completed" })).rejects.toThrow("one may have been missed");
});

it("holds one whose last pages are empty before they are sent, once it knows how much is not", async () => {
  const sent = (syncs: number, left: number, full: number): MigrationInfo => at(syncs, left, 0, full);
  const first = await emulated();
  for (const full of [0, 20, 38, 54, 66]) expect(await first.look(sent(1, 128 - full, full))).toBe("running");
  const failure = await first.look(sent(2, 1, 97)).catch((err: unknown) => err);
  expect(failure).toMatchObject({ fullBytes: 97 * MIB });
  const { fullBytes } = failure as SentInVain;
  const next = await emulated({ fullBytes });
  for (const full of [0, 20, 38, 54, 66, 75, 82, 88, 91])
    expect(await next.look(sent(1, 128 - full, full)), String(full)).toBe("running");
  expect(await next.look(sent(1, 34, 94)), "34 MiB are left, 3 of them not empty").toBe("paused");
  // Later passes go by what has changed.
  expect(await next.look(sent(2, 20, 97))).toBe("running");
  const again = await next.look(sent(3, 5, 117)).catch((err: unknown) => err);
  expect(again).toMatchObject({ fullBytes });
});

it("leaves a guest alone that stood still before", async () => {
  const { guest } = await emulated();
  const still = await StandstillAtSyncs.begin(guest, { lastMs: 50, patience: 1 });
  await still.look(at(1, 128), 0);
  await still.look({ ...at(3, 0), status: "completed" }, 1);
  expect((await guest.qmp.execute("query-status")).status).toBe("paused");
});

it("tells that the guest rests when it is first held, and when it will not go on", async () => {
  let told = 0;
  const { look } = await emulated({ atRest: () => void told++ });
  const after: number[] = [];
  for (const [syncs, left] of [
    [0, 0],
    [1, 128],
    [1, 3],
    // Too much was changed meanwhile: it goes on, and the next hold may not be the last either.
    [2, 50],
    [2, 3],
    [3, 1],
  ] as const) {
    await look(at(syncs, left));
    after.push(told);
  }
  expect(after).toEqual([0, 0, 1, 1, 1, 2]);
});
