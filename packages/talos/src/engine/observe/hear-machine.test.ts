// What machines say while they are waited for.
import { AppError } from "@gpve/contracts/errors.ts";
import { expect, test, vi } from "vitest";
import type { GuestConsole } from "../../driver/driver.ts";
import type { Step } from "../../plan/plan-steps.ts";
import { hearMachine, listenBy } from "./hear-machine.ts";
import type { World } from "../world.ts";

const reach: Step = { kind: "talos.reach", impact: "safe", subject: "a" };
const world = { machines: new Map() } as unknown as World;
const late = () =>
  new AppError("request.timeout", "a did not come up", { data: { finding: "machine-silent" } });
const console = (...lines: readonly string[]) => ({ lines, close: vi.fn() });
const opened = async (made: GuestConsole | undefined) => {
  const heard = hearMachine(async () => made, reach, world);
  await Promise.resolve();
  await Promise.resolve();
  return heard;
};

test("its last lines come with the failure, and the newest one meanwhile", async () => {
  const line = console("[talos] waiting for network", "[talos] no carrier");
  const heard = await opened(line);
  expect(heard.latest()).toBe("[talos] no carrier");
  expect(heard.with(late())).toMatchObject({
    code: "request.timeout",
    message: "a did not come up\nIts console said last:\n  [talos] waiting for network\n  [talos] no carrier",
    data: { finding: "machine-silent" },
  });
  heard.close();
  expect(line.close).toHaveBeenCalledOnce();
});

test("silence and a console that nobody may read are told as such", async () => {
  expect((await opened(console())).with(late())).toMatchObject({
    message: "a did not come up\nIts console said nothing meanwhile.",
  });
  const refused = hearMachine(() => Promise.reject(new Error("no VM.Console")), reach, world);
  await vi.waitFor(
    () =>
      expect(refused.with(late())).toMatchObject({
        message: "a did not come up\nIts console cannot be read: no VM.Console",
      }),
    { timeout: 30_000 },
  );
});

test("where nothing can be heard, failures are what they were", async () => {
  const err = late();
  expect((await opened(undefined)).with(err)).toBe(err);
  const other = new Error("a bug");
  expect((await opened(console("x"))).with(other)).toBe(other);
  expect(hearMachine(undefined, reach, world).with(err)).toBe(err);
});

test("only machines that boot for the first time are listened to, and a line that opens too late is closed", async () => {
  const listen = vi.fn(async () => console());
  hearMachine(listen, { kind: "talos.reboot", impact: "disruptive", subject: "a" }, world).close();
  expect(listen).not.toHaveBeenCalled();
  const line = console();
  const opening = Promise.withResolvers<GuestConsole>();
  hearMachine(() => opening.promise, reach, world).close();
  opening.resolve(line);
  await vi.waitFor(() => expect(line.close).toHaveBeenCalledOnce(), { timeout: 30_000 });
});

test("a guest is heard by its own platform", async () => {
  const line = console("x");
  const listen = vi.fn(async () => line);
  const place = { host: "n1", vmid: 2000 };
  const machines = new Map([["a", { guest: { provider: "pve", place } }]]);
  const seen = { machines } as unknown as World;
  const drivers = new Map([["pve", { listen }]]) as unknown as Parameters<typeof listenBy>[0];
  expect(await listenBy(drivers)("a", seen)).toBe(line);
  expect(listen).toHaveBeenCalledWith(place);
  expect(await listenBy(drivers)("b", seen)).toBeUndefined();
});
