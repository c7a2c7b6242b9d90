// The end of migrations that nobody wants any more. What they do otherwise is shown where guests are saved and moved.
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { cancelMigration, type RamStatePorts } from "./ram-state.ts";

function world(statuses: readonly string[]) {
  const asked: string[] = [];
  const clock = new FakeClock();
  let at = 0;
  const execute = (command: string): Promise<unknown> => {
    asked.push(command);
    return Promise.resolve(
      command === "query-migrate" ? { status: statuses[Math.min(at++, statuses.length - 1)] } : {},
    );
  };
  const process = { hasExited: false, qmp: { execute } } as unknown as QemuProcess;
  const host = { clock } as unknown as RamStatePorts;
  return { asked, clock, ended: cancelMigration(host, process) };
}

test("a migration is called off once, and waited for", async () => {
  const { asked, clock, ended } = world(["active", "cancelling", "cancelled"]);
  await clock.advance(1_000);
  await ended;
  expect(asked).toEqual(["query-migrate", "migrate_cancel", "query-migrate", "query-migrate"]);
});

test("one that QEMU never lets go of is not waited for for ever", async () => {
  const { asked, clock, ended } = world(["cancelling"]);
  await clock.advance(31_000);
  await ended;
  expect(asked).not.toContain("migrate_cancel");
});
