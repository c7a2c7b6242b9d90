// `up` makes one bridge per host and takes it away again: tests that let it do so take turns. It makes none where a host has
// a vmbrN of its own, so that bridges of other tests are named otherwise.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError } from "@gpve/contracts/errors.ts";
import { acquireProcessLock, type ProcessLock } from "@gpve/kit/process-lock.ts";

export type NetworkTurn = Pick<ProcessLock, "release">;

export async function networkTurn(): Promise<NetworkTurn> {
  for (;;) {
    try {
      return acquireProcessLock(join(tmpdir(), "gpve-test-network.lock"));
    } catch (err) {
      if (!isAppError(err, "resource.busy")) throw err;
      await new Promise((done) => setTimeout(done, 1_000));
    }
  }
}
