import { placeCollection } from "@gpve/domain/node/server-place.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { expect, test } from "vitest";
import { ServerPlaces } from "./server-places.ts";

const HOUR = 3_600_000;

function world() {
  const [records, clock, stop] = [new MemoryRecords(), new FakeClock(), new AbortController()];
  const running = new Set(["s1", "s2", "s3"]);
  const failures: unknown[] = [];
  let reachable = true;
  let fingerprint = "AA";
  const places = new ServerPlaces(records, async (name) => {
    if (!reachable) throw new Error("no quorum");
    return running.has(name);
  });
  const kept = places.keep(
    { name: "s1", url: "https://s1:8006", fingerprint: () => fingerprint },
    { clock, signal: stop.signal, onFailure: (err) => failures.push(err) },
  );
  return {
    places,
    running,
    failures,
    clock,
    renew: () => (fingerprint = "BB"),
    cut: (is: boolean) => (reachable = !is),
    names: () =>
      records
        .collection(placeCollection)
        .list()
        .map(({ id }) => id),
    end: async () => {
      stop.abort();
      await clock.advance(0);
      await kept;
    },
  };
}

test("a server that has not run for a day is forgotten, one that comes back meanwhile is not", async () => {
  const { places, running, clock, names, end } = world();
  for (const name of ["s2", "s3"]) await places.note({ name, url: `https://${name}:8006` });
  running.delete("s2");
  running.delete("s3");
  await clock.advance(20 * HOUR);
  running.add("s3");
  await clock.advance(HOUR);
  running.delete("s3");
  await clock.advance(4 * HOUR);
  expect(names()).toEqual(["s1", "s3"]);
  await end();
});

test("a server that was forgotten and runs is noted again, by itself", async () => {
  const { places, clock, names, end } = world();
  await clock.advance(1_000);
  expect(names()).toEqual(["s1"]);
  await places.forget("s1");
  await clock.advance(HOUR);
  expect(names()).toEqual(["s1"]);
  await end();
});

test("while the store cannot be asked nobody is forgotten", async () => {
  const { places, cut, failures, clock, names, end } = world();
  await places.note({ name: "s2", url: "https://s2:8006" });
  cut(true);
  await clock.advance(48 * HOUR);
  expect(names()).toEqual(["s1", "s2"]);
  expect(failures.length).toBeGreaterThan(1);
  cut(false);
  await end();
});

test("what clients are shown is noted too, and again when it is renewed", async () => {
  const { places, renew, clock, end } = world();
  await clock.advance(1_000);
  expect(places.fingerprintOf("s1")).toBe("AA");
  expect(places.fingerprintOf("s2")).toBeUndefined();
  renew();
  await clock.advance(HOUR);
  expect(places.fingerprintOf("s1")).toBe("BB");
  await end();
});
