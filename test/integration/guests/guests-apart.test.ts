// A QEMU that was taken over does not get at the processes beside it: the guest's own helpers, which have a network or
// other files, tools that work on its image, and other guests.
import { readFileSync, readlinkSync, statSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { confinedImageTools } from "@gpve/agent/testing/confined-image-tools.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { NO_REACH, reachOf } from "../../support/intruder.ts";
import { bootable, type GuestWorld, guestWorld, missingForGuests, processesOf } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED processes of guests apart: ${missing}`);

describe.skipIf(missing !== undefined)("a guest that was taken over", () => {
  let world: GuestWorld;
  let guest: QemuProcess;
  let other: QemuProcess;
  const helpers: GuestProcess[] = [];

  beforeAll(async () => {
    world = await guestWorld();
    const guests = world.guests();
    guest = await guests.startQemu(bootable("100", world.disk("100.raw", "halt")));
    other = await guests.startQemu(bootable("101", world.disk("101.raw", "halt")));
    for (const id of ["100-tpm", "100-net0", "100-fs0"])
      helpers.push(
        await guests.start({
          id,
          label: id,
          program: "/usr/bin/sleep",
          args: ["555"],
          files: [],
          hostNetwork: id === "100-net0",
          asRoot: id === "100-fs0",
        }),
      );
  });

  afterAll(async () => {
    await world?.clean();
  });

  it("traces, signals and reads no process but its own", async () => {
    // So that the attempts are known to be worth something.
    expect(await reachOf(guest.pid, guest.pid, { inside: false })).toEqual({
      traces: true,
      signals: true,
      readsMemory: true,
    });
    for (const target of [...helpers, other])
      for (const inside of [true, false])
        expect(
          await reachOf(guest.pid, target.pid, { inside }),
          `${target.label} from ${inside ? "inside" : "outside"}`,
        ).toEqual(NO_REACH);
  });

  it("does not reach a tool that works on its own image", async () => {
    const path = world.data.file("100.raw");
    const tools = confinedImageTools(world.data.path);
    const work = tools("sleep", ["543"], [{ path, access: "rw" }], { timeoutMs: 20_000 }).catch(
      () => "ended",
    );
    const tool = (): number | undefined => processesOf("sleep\0" + "543\0").at(-1);
    await expect.poll(tool).toBeDefined();
    const pid = tool() ?? 0;
    for (const inside of [true, false])
      expect(await reachOf(guest.pid, pid, { inside }), `${inside}`).toEqual(NO_REACH);
    expect(readlinkSync(`/proc/${pid}/ns/pid`)).not.toBe(readlinkSync("/proc/self/ns/pid"));
    process.kill(pid, "SIGKILL");
    expect(await work).toBe("ended");
    expect(statSync(path).uid).toBe(guest.uid);
  });

  it("is not reached by its helpers either", async () => {
    for (const helper of helpers.filter(({ uid }) => uid !== 0))
      for (const inside of [true, false])
        expect(await reachOf(helper.pid, guest.pid, { inside }), helper.label).toEqual(NO_REACH);
  });

  it("leaves no process behind, however it ends, also when its supervisor was killed before", async () => {
    const guests = world.guests();
    const bomb = await guests.start({
      id: "102-tpm",
      label: "runaway",
      program: "/usr/bin/bash",
      args: ["-c", "for i in 1 2 3 4 5; do (trap '' HUP INT TERM; /usr/bin/sleep 678) & done; wait"],
      files: [{ path: "/usr/bin/sleep", access: "ro", owned: false }],
    });
    const sleepers = (): number[] => processesOf("/usr/bin/sleep\0" + "678");
    await expect.poll(() => sleepers().length).toBe(5);
    const state = readFileSync(world.data.file("run", "guests", "102-tpm", "state"), "utf8");
    process.kill((JSON.parse(state) as { supervisor: number }).supervisor, "SIGKILL");
    process.kill(bomb.pid, "SIGKILL");
    await expect.poll(() => sleepers().length).toBe(0);
  });

  it("can name no process of the host, not even of its own user", async () => {
    for (const { pid } of [guest, ...helpers]) {
      expect(readlinkSync(`/proc/${pid}/ns/pid`)).not.toBe(readlinkSync("/proc/self/ns/pid"));
      expect(await reachOf(pid, pid, { inside: true })).toMatchObject({ traces: false, signals: false });
    }
    expect(
      new Set([guest, other, ...helpers].map(({ pid }) => readlinkSync(`/proc/${pid}/ns/pid`))).size,
    ).toBe(5);
    expect(new Set([guest, other, ...helpers].map(({ uid }) => uid)).size).toBe(5);
  });
});
