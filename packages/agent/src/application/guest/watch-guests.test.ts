import { expect, it } from "vitest";
import { guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { watchGuests } from "./watch-guests.ts";

it("looks at all guests again and again, whatever goes wrong in between", async () => {
  const stop = new AbortController();
  const kept: number[] = [];
  const balanced: number[] = [];
  const looks: number[] = [];
  const guest = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" });
  let round = 0;
  await watchGuests(
    {
      sampler: {
        askGuests: async () => {
          round += 1;
          if (round === 2) throw new Error("no luck");
        },
        sample: () => [{ vmid: 100 } as GuestRuntime],
      },
      guests: () => [guest],
      keep: (rows, guests) => kept.push(rows.length + guests.length),
      balance: async (guests) => {
        balanced.push(guests.length);
        if (round === 3) stop.abort();
      },
      observe: (seconds) => looks.push(seconds),
      clock: systemClock,
      log: silentLogger,
      everyMs: 0,
    },
    stop.signal,
  );
  expect({ round, kept, balanced }).toEqual({ round: 3, kept: [2, 2], balanced: [1, 1] });
  expect(looks).toHaveLength(2);
});
