import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, it } from "vitest";
import { guestArrival } from "./arrived-guest.ts";

const unreachable = new AppError("store.unavailable", "no server is in reach");

/** What this node knows lags behind: it has what was written once it was asked to be fresh. */
async function nodeThatLags() {
  const options = { prefix: "/gpve/", log: silentLogger };
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), options);
  const clock = new FakeClock();
  const state = {
    problem: undefined as Error | undefined,
    asked: 0,
    arrives: undefined as string | undefined,
  };
  const arrival = guestArrival({
    node: "n1",
    clock,
    records: () => {
      if (state.problem !== undefined) throw state.problem;
      return {
        collection: (def) => records.collection(def),
        fresh: async () => {
          state.asked += 1;
          if (state.arrives !== undefined) await put(state.arrives);
        },
      };
    },
  });
  const put = (node: string) =>
    records.transact((tx) =>
      tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node, conf: "" })),
    );
  const owner = () => records.collection(guestCollection).get("100")?.value.node;
  return { arrival, clock, state, put, owner };
}

const { signal } = new AbortController();

it("asks nobody for a guest that is here", async () => {
  const { arrival, state, put } = await nodeThatLags();
  await put("n1");
  await arrival("100", signal, silentLogger);
  expect(state.asked).toBe(0);
});

it("sees a guest that was another node's a moment ago", async () => {
  const { arrival, state, put, owner } = await nodeThatLags();
  await put("n2");
  state.arrives = "n1";
  await arrival("100", signal, silentLogger);
  expect([state.asked, owner()]).toEqual([1, "n1"]);
});

it("waits for the first server, and no longer than it is worth", async () => {
  const { arrival, clock, state } = await nodeThatLags();
  state.problem = unreachable;
  const heard = arrival("100", signal, silentLogger);
  await clock.advance(1_000);
  state.problem = undefined;
  await clock.advance(200);
  await heard;
  expect(state.asked).toBe(1);
  state.problem = unreachable;
  const given = arrival("100", signal, silentLogger);
  await clock.advance(6_000);
  await given;
  expect(state.asked).toBe(1);
});

it("ends with the call", async () => {
  const { arrival, state } = await nodeThatLags();
  state.problem = unreachable;
  const left = new AbortController();
  const heard = arrival("100", left.signal, silentLogger);
  left.abort(new Error("hung up"));
  await expect(heard).rejects.toThrow("hung up");
});
