import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, it } from "vitest";
import { untilJoined } from "./until-joined.ts";

/** For how many seconds it is tried where the answer stays that one for so long. */
async function triedFor(code: ErrorCode, seconds = Infinity): Promise<number | string> {
  const clock = new FakeClock(0);
  const join = async (): Promise<string> => {
    if (clock.now() < seconds * 1_000) throw new AppError(code, "not yet");
    return "joined";
  };
  const work = untilJoined(join, { clock, say: () => undefined }).catch(() => clock.now() / 1_000);
  await clock.advance(130_000);
  return work;
}

it("waits for the machine that has the name as long after it has waited for servers", async () => {
  const clock = new FakeClock(0);
  const join = async (): Promise<string> => {
    if (clock.now() >= 120_000) return "joined";
    throw new AppError(clock.now() < 100_000 ? "node.unavailable" : "resource.busy", "not yet");
  };
  const work = untilJoined(join, { clock, say: () => undefined });
  await clock.advance(130_000);
  expect(await work).toBe("joined");
});

it("waits for servers, and for the machine that has the name, but not for another answer", async () => {
  expect(await triedFor("node.unavailable", 100)).toBe("joined");
  expect(await triedFor("node.unavailable")).toBe(120);
  expect(await triedFor("resource.busy", 19)).toBe("joined");
  expect(await triedFor("resource.busy")).toBe(30);
  expect(await triedFor("auth.failed")).toBe(0);
});
