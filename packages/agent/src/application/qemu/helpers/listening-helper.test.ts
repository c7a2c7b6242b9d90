import { expect, test } from "vitest";
import type { GuestExit } from "@gpve/domain/guest/guest-processes.ts";
import { whyEnded } from "./listening-helper.ts";

const ended = (exit: Partial<GuestExit>, hasExited = true) =>
  whyEnded({
    label: "TPM of VM 100",
    hasExited,
    exited: Promise.resolve({
      cause: "crashed",
      at: 0,
      outOfMemory: false,
      lastWords: "",
      ...exit,
    } as GuestExit),
  });

test("a helper that ended too early is told with how it ended and what it said", async () => {
  expect((await ended({ exitCode: 1, lastWords: "swtpm: no room\n" }))?.message).toBe(
    "the TPM of VM 100 ended before QEMU spoke to it (crashed, exit code 1): swtpm: no room",
  );
  expect((await ended({ signal: 9, outOfMemory: true }))?.message).toBe(
    "the TPM of VM 100 ended before QEMU spoke to it (crashed, signal 9, out of memory): it said nothing",
  );
});

test("one that runs is not to blame", async () => {
  expect(await ended({}, false)).toBeUndefined();
});
