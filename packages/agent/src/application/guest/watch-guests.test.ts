import { expect, it } from "vitest";
import { guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { joinSamplers, watchGuests, type GuestSampler } from "./watch-guests.ts";

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
        balance: async (guests) => {
          balanced.push(guests.length);
          if (round === 3) stop.abort();
        },
      },
      guests: () => [guest],
      keep: (rows, guests) => kept.push(rows.length + guests.length),
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

it("looks at guests of all kinds as at those of one", async () => {
  const asked: string[] = [];
  const sampler = (vmid: number): GuestSampler => ({
    askGuests: async () => void asked.push(`ask ${vmid}`),
    sample: () => [{ vmid } as GuestRuntime],
    rows: () => [{ vmid } as GuestRuntime],
    running: () => `${vmid}:1`,
  });
  const balancing = { ...sampler(101), balance: async () => void asked.push("balance 101") };
  const all = joinSamplers([sampler(100), balancing]);
  await all.askGuests();
  await all.balance([]);
  expect(asked).toEqual(["ask 100", "ask 101", "balance 101"]);
  expect(all.running()).toBe("100:1;101:1");
  for (const rows of [all.sample(), all.rows()]) expect(rows.map(({ vmid }) => vmid)).toEqual([100, 101]);
});
