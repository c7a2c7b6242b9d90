import { expect, test } from "vitest";
import type { GuestExit } from "@gpve/domain/guest/guest-processes.ts";
import { whyFailed } from "./listening-helper.ts";

const missing = new Error("QEMU: no such socket");

const ended = (exit: Partial<GuestExit>, hasExited = true) =>
  whyFailed(
    {
      label: "TPM of VM 100",
      hasExited,
      exited: Promise.resolve({
        cause: "crashed",
        at: 0,
        outOfMemory: false,
        lastWords: "",
        ...exit,
      } as GuestExit),
    },
    missing,
  );

test("a helper that failed is told with how it ended and what it said, and what came of it is the cause", async () => {
  expect((await ended({ exitCode: 1 }))?.cause).toBe(missing);
  expect((await ended({ exitCode: 1, lastWords: "swtpm: no room\n" }))?.message).toBe(
    "the TPM of VM 100 ended while QEMU started (crashed, exit code 1): swtpm: no room",
  );
  expect((await ended({ cause: "killed", signal: 9, outOfMemory: true }))?.message).toBe(
    "the TPM of VM 100 ended while QEMU started (killed, signal 9, out of memory): it said nothing",
  );
});

test("one that runs is not to blame", async () => {
  expect(await ended({}, false)).toBeUndefined();
});

test("one that ended in good order when QEMU hung up, or that we ended, is not to blame either", async () => {
  expect(await ended({ cause: "shutdown", exitCode: 0 })).toBeUndefined();
  expect(await ended({ cause: "stopped", signal: 15 })).toBeUndefined();
  expect(await ended({ cause: "unknown" })).toBeUndefined();
});
