// What one stream of watches may cost, where the client does not read what it asked for.
import { create } from "@bufbuild/protobuf";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type WatchRequest, WatchRequestSchema } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { memberOf } from "./member.ts";
import { WatchStream } from "./watch-stream.ts";

let store: Store;
beforeEach(() => {
  store = openSqliteStore({ path: ":memory:" });
});
afterEach(() => store.close());

const MANY = 1_000;
const streamOf = (maxWatches: number): WatchStream =>
  new WatchStream({
    store,
    member: memberOf("one", []),
    clock: new FakeClock(),
    progressNotifyMs: 1_000,
    maxWatches,
  });
const wanted = create(WatchRequestSchema, {
  requestUnion: { case: "createRequest", value: { key: utf8("/k") } },
});
const cancel = create(WatchRequestSchema, {
  requestUnion: { case: "cancelRequest", value: { watchId: 0n } },
});

describe("a stream of watches", () => {
  it("reads no further requests while their answers are not taken", async () => {
    let read = 0;
    async function* flood(): AsyncGenerator<WatchRequest> {
      for (; read < MANY; read++) yield await Promise.resolve(wanted);
    }
    const stop = new AbortController();
    const answers = streamOf(1).answer(flood(), stop.signal);
    await answers.next();
    // Time for all of them, were they read.
    for (let i = 0; i < 20 * MANY; i++) await Promise.resolve();
    expect(read).toBeGreaterThan(1);
    expect(read).toBeLessThan(100);
    let more = 1;
    for await (const answer of answers) {
      expect(answer.cancelReason).toBe("etcdserver: too many requests");
      more += 1;
    }
    expect(more).toBe(MANY);
  });

  it("has room again for a watch when another was cancelled", async () => {
    async function* requests(): AsyncGenerator<WatchRequest> {
      for (const each of [wanted, wanted, cancel, wanted]) yield await Promise.resolve(each);
    }
    const told: string[] = [];
    for await (const answer of streamOf(1).answer(requests(), new AbortController().signal)) {
      told.push(`${answer.created === true ? "created" : ""} ${answer.canceled === true ? "cancelled" : ""}`);
    }
    expect(told).toEqual(["created ", "created cancelled", " cancelled", "created "]);
  });
});
