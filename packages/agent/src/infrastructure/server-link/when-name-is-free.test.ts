import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { whenNameIsFree } from "./when-name-is-free.ts";

const taken = new AppError("object.exists", "a server named s3 runs in this cluster");

test("the name of a server that has just died is free when its lease has ended", async () => {
  const clock = new FakeClock();
  const said: string[] = [];
  const diedAt = clock.monotonic();
  const joined = whenNameIsFree(
    async () => {
      if (clock.monotonic() < diedAt + 10_000) throw taken;
      return "joined";
    },
    { clock, say: (line) => said.push(line) },
  );
  await clock.advance(11_000);
  expect(await joined).toBe("joined");
  expect(said).toHaveLength(1);
});

test("the name of one that runs is refused when it has had the time to show it", async () => {
  const clock = new FakeClock();
  const joined = whenNameIsFree(() => Promise.reject(taken), { clock, say: () => undefined });
  const refused = expect(joined).rejects.toThrow("runs in this cluster");
  await clock.advance(30_000);
  await refused;
});

test("what has another cause is told at once", async () => {
  const refused = new AppError("auth.failed", "the join token is not valid");
  await expect(
    whenNameIsFree(() => Promise.reject(refused), { clock: new FakeClock(), say: () => undefined }),
  ).rejects.toThrow("not valid");
});
