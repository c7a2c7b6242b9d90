import { expect, test } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { StorageWatch } from "./watch-storages.ts";

test("looks at once, then every ten seconds, also after a look that failed, until it is closed", async () => {
  const clock = new FakeClock(0);
  const kept: number[] = [];
  const watch = new StorageWatch({
    storages: {
      refresh: async () => {
        if (clock.now() === 20_000) throw new Error("no luck");
      },
      runtimes: () => [],
    },
    statistics: { sample: (at) => void kept.push(at) },
    clock,
    log: silentLogger,
  });
  await watch.start();
  expect(kept).toEqual([0]);
  await clock.advance(35_000);
  expect(kept).toEqual([0, 10_000, 30_000]);
  watch.close();
  await clock.advance(60_000);
  expect(kept).toHaveLength(3);
});
