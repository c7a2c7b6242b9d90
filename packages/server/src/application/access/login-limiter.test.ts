import { expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { LoginLimiter } from "./login-limiter.ts";

test("memory stays bounded whatever names and addresses come", async () => {
  const clock = new FakeClock();
  const limiter = new LoginLimiter(clock, 100);
  for (let i = 0; i < 1_000; i++) limiter.failed("x".repeat(5_000), `10.0.${i >> 8}.${i & 255}`);
  expect(limiter.size).toBe(100);
  await clock.advance(61_000);
  limiter.failed("joe@pve", "::1");
  expect(limiter.size).toBe(1);
});

test("guesses made at once count as well as one after another", async () => {
  const limiter = new LoginLimiter(new FakeClock());
  let asked = 0;
  const guess = () => limiter.guard("joe@pve", "::1", async () => (asked++, "wrong"));
  const answers = await Promise.all(Array.from({ length: 30 }, guess));
  expect(asked).toBe(10);
  expect(answers.at(-1)).toBe("too many failures in the last minute");
});

test("the minute starts at the first failure", async () => {
  const clock = new FakeClock();
  const limiter = new LoginLimiter(clock);
  for (let i = 0; i < 9; i++) limiter.failed("joe@pve", "::1");
  await clock.advance(59_000);
  expect(limiter.isBlocked("joe@pve", "::1")).toBe(false);
  limiter.failed("joe@pve", "::1");
  expect(limiter.isBlocked("joe@pve", "::1")).toBe(true);
  expect(limiter.isBlocked("joe@pve", "2001:db8::2")).toBe(false);
  expect(limiter.isBlocked("ann@pve", "::1")).toBe(false);
  await clock.advance(1_000);
  expect(limiter.isBlocked("joe@pve", "::1")).toBe(false);
});

test("the addresses of one IPv6 network guess together", () => {
  const limiter = new LoginLimiter(new FakeClock());
  for (let i = 0; i < 10; i++) limiter.failed("joe@pve", `2001:db8:0:1::${i}`);
  expect(limiter.isBlocked("joe@pve", "2001:db8:0:1:ffff::1")).toBe(true);
  expect(limiter.isBlocked("joe@pve", "2001:db8:0:2::1")).toBe(false);
});
