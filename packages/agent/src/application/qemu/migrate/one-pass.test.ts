import { AppError } from "@gpve/contracts/errors.ts";
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { expect, it } from "vitest";
import { FakeGuests } from "../../../testing/fake-guests.ts";
import { OnePass } from "./one-pass.ts";

const MIB = 1024 ** 2;
const at = (status: string, syncs: number, fullMiB = 0, mbps = 0): MigrationInfo => ({
  status: status as NonNullable<MigrationInfo["status"]>,
  ram: {
    transferred: 0,
    total: 128 * MIB,
    mbps,
    "dirty-pages-rate": 0,
    "dirty-sync-count": syncs,
    remaining: 0,
    "normal-bytes": fullMiB * MIB,
  },
});

async function emulated() {
  const guests = new FakeGuests();
  const guest = await guests.startQemu({ id: "7", label: "VM 7", program: "", args: [], files: [] });
  const told = { rests: 0, allowed: [] as number[] };
  const line = { isExceeded: false, allow: (bytes: number) => void told.allowed.push(bytes) };
  const pass = new OnePass(guest, { lastMs: 50, atRest: () => void told.rests++, line });
  await pass.hold();
  return {
    guest,
    pass,
    told,
    line,
    look: async (info: MigrationInfo) => {
      await pass.look(info);
      return guest.status;
    },
  };
}

it("holds the guest until the log was read for the first time, and leaves the end to QEMU", async () => {
  const { look, guest, pass, told } = await emulated();
  expect(guest.status).toBe("paused");
  expect(pass.lookEveryMs).toBe(10);
  expect(await look({ status: "setup" })).toBe("paused");
  expect(await look(at("active", 0))).toBe("paused");
  expect(await look(at("active", 1))).toBe("running");
  expect(pass.lookEveryMs).toBe(100);
  expect(await look(at("active", 1, 60))).toBe("running");
  expect(told).toEqual({ rests: 0, allowed: [] });
  await look(at("pre-switchover", 1, 96));
  await look(at("pre-switchover", 1, 96));
  // From here on the log is read as often as QEMU likes.
  await look(at("device", 2, 97));
  await look(at("completed", 2, 97));
  expect(told).toEqual({ rests: 1, allowed: [4 * MIB] });
});

it("allows more at last where the line is quick", async () => {
  const { look, told } = await emulated();
  await look(at("active", 1));
  await look(at("pre-switchover", 1, 96, 1600));
  expect(told.allowed).toEqual([10_000_000]);
});

it("trusts nothing that QEMU read while the guest ran", async () => {
  for (const late of [
    at("active", 2, 96),
    at("pre-switchover", 2, 96),
    at("completed", 1),
    at("device", 1),
  ]) {
    const { look, told } = await emulated();
    await look(at("active", 1));
    await expect(look(late)).rejects.toThrow("one may have been missed. It runs on here");
    expect(told).toEqual({ rests: 0, allowed: [] });
  }
});

it("tells how much was not empty to who sends it once more", async () => {
  const { look, pass, line } = await emulated();
  await look(at("active", 1));
  await look(at("pre-switchover", 1, 96));
  expect(pass.failure()).toBeUndefined();
  line.isExceeded = true;
  expect(pass.failure()).toMatchObject({ fullBytes: 96 * MIB });
  const read = await emulated();
  await read.look(at("active", 1));
  const failure = await read.look(at("active", 2, 95)).catch((err: unknown) => err);
  expect(failure).toMatchObject({ fullBytes: 95 * MIB });
});

it("takes a guest that was sent before anybody looked as it is: it stood still all the time", async () => {
  const whole = await emulated();
  expect(await whole.look(at("pre-switchover", 1, 1))).toBe("paused");
  expect(whole.told.rests).toBe(1);
  // The end came between the look and the word to go on.
  const refused = await emulated();
  refused.guest.qmp.answers.set("cont", () => {
    throw new AppError("qmp.failed", "Migration is not finalized yet", { pveStatus: 500 });
  });
  expect(await refused.look(at("active", 1))).toBe("paused");
  expect(await refused.look(at("active", 2))).toBe("paused");
  expect(await refused.look(at("pre-switchover", 2, 1))).toBe("paused");
  expect(refused.told.rests).toBe(1);
});

it("leaves a guest alone that stood still before", async () => {
  const { guest } = await emulated();
  const pass = new OnePass(guest, { lastMs: 50 });
  await pass.hold();
  await pass.look(at("active", 1));
  await pass.look(at("completed", 3));
  expect(guest.status).toBe("paused");
});
