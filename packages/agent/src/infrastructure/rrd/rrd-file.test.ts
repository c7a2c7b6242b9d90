import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NodeUsage } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { madeUpFiles } from "../../testing/made-up-host.ts";
import { keepNodeStatistics, nodeSources, nodeValues } from "./node-statistics.ts";
import { RrdFile, type RrdSource } from "./rrd-file.ts";

const gauge: RrdSource = { name: "cpu", kind: "gauge" };
const counter: RrdSource = { name: "netin", kind: "counter" };
const HOUR = 3_600_000;
const t0 = Date.UTC(2026, 0, 5);

let dir = "";
let path = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gpve-rrd-"));
  path = join(dir, "node.rrd");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("a round-robin archive", () => {
  test("averages samples into minutes and keeps the highest", () => {
    const rrd = RrdFile.open(path, [gauge]);
    for (const [at, cpu] of [
      [0, 0.2],
      [10, 0.4],
      [20, 0.9],
      [60, 0.1],
      [120, 0.3],
    ] as const) {
      rrd.update(t0 + at * 1_000, { cpu });
    }
    const rows = rrd.rows("hour", "AVERAGE", t0 + 120_000);
    expect(rows).toHaveLength(70);
    expect(rows.slice(-3).map((row) => row["cpu"])).toEqual([0.5, 0.1, undefined]);
    expect(rows.at(-1)).toEqual({ time: t0 / 1_000 + 120 });
    expect(rrd.rows("hour", "MAX", t0 + 120_000).at(-3)?.["cpu"]).toBe(0.9);
    rrd.close();
  });

  test("turns counters into rates, and knows nothing across a reset or a long pause", () => {
    const rrd = RrdFile.open(path, [counter]);
    const feed = (seconds: number, netin: number): void => rrd.update(t0 + seconds * 1_000, { netin });
    feed(0, 1_000);
    feed(60, 7_000);
    feed(120, 100);
    feed(180, 700);
    feed(600, 9_000);
    feed(660, 9_060);
    rrd.flush();
    const known = rrd.rows("hour", "AVERAGE", t0 + 660_000).filter((row) => row["netin"] !== undefined);
    expect(known).toEqual([
      { time: t0 / 1_000 + 60, netin: 100 },
      { time: t0 / 1_000 + 180, netin: 10 },
      { time: t0 / 1_000 + 660, netin: 1 },
    ]);
    rrd.close();
  });

  test("survives a restart with a file of constant size", () => {
    const size = (): number => statSync(path).size;
    let rrd = RrdFile.open(path, [gauge, counter]);
    const bytes = size();
    for (let minute = 0; minute < 100; minute++) rrd.update(t0 + minute * 60_000, { cpu: 1, netin: minute });
    rrd.close();
    rrd = RrdFile.open(path, [gauge, counter]);
    for (let minute = 100; minute < 2_000; minute++)
      rrd.update(t0 + minute * 60_000, { cpu: 2, netin: minute });
    rrd.close();
    rrd = RrdFile.open(path, [gauge, counter]);
    expect(size()).toBe(bytes);
    const now = t0 + 1_999 * 60_000;
    const day = rrd.rows("day", "AVERAGE", now);
    expect(day).toHaveLength(1_440);
    expect(day.every((row) => row["cpu"] === 2)).toBe(true);
    const week = rrd.rows("week", "AVERAGE", now);
    expect(week).toHaveLength(336);
    expect(week.filter((row) => row["cpu"] === 1)).toHaveLength(3);
    expect(rrd.rows("month", "MAX", now).filter((row) => row["cpu"] !== undefined)).toHaveLength(67);
    expect(rrd.rows("year", "MAX", now).filter((row) => row["cpu"] !== undefined)).toHaveLength(6);
    expect(rrd.rows("decade", "MAX", now).filter((row) => row["cpu"] !== undefined)).toHaveLength(1);
    rrd.close();
  });

  test("carries known columns over when the sources change, and replaces a file that is not one", () => {
    let rrd = RrdFile.open(path, [gauge, counter]);
    rrd.update(t0, { cpu: 0.7 });
    rrd.close();
    rrd = RrdFile.open(path, [{ name: "new", kind: "gauge" }, gauge]);
    expect(rrd.rows("hour", "AVERAGE", t0).at(-1)).toEqual({ time: t0 / 1_000, cpu: 0.7 });
    rrd.close();
    for (const junk of ["junk", "gpve-rrd 1\n{\n", "gpve-rrd 1\n[]\n"]) {
      writeFileSync(path, junk);
      rrd = RrdFile.open(path, [gauge]);
      expect(rrd.rows("hour", "AVERAGE", t0).at(-1)).toEqual({ time: t0 / 1_000 });
      rrd.close();
    }
    const many = Array.from({ length: 400 }, (_, index): RrdSource => ({
      name: `source-${index}`,
      kind: "gauge",
    }));
    expect(() => RrdFile.open(join(dir, "many"), many)).toThrow(/too many/);
  });

  test("samples out of order or without sense change nothing", () => {
    const rrd = RrdFile.open(path, [gauge]);
    rrd.update(t0, { cpu: 1 });
    rrd.update(t0, { cpu: 5 });
    rrd.update(t0 - 60_000, { cpu: 5 });
    rrd.update(t0 + 1_000, { cpu: Number.NaN });
    rrd.flush();
    rrd.flush();
    expect(rrd.rows("hour", "MAX", t0).at(-1)?.["cpu"]).toBe(1);
    rrd.close();
  });

  test("averages never leave the range of the samples", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1e9, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 50 }),
        (values) => {
          const file = join(dir, "p.rrd");
          const rrd = RrdFile.open(file, [gauge]);
          for (const [index, cpu] of values.entries()) rrd.update(t0 + index * 20_000, { cpu });
          rrd.flush();
          const rows = rrd.rows("decade", "AVERAGE", t0 + HOUR);
          rrd.close();
          rmSync(file);
          const average = rows.at(-1)?.["cpu"] ?? Number.NaN;
          expect(average).toBeGreaterThanOrEqual(Math.min(...values) - 1e-3);
          expect(average).toBeLessThanOrEqual(Math.max(...values) + 1e-3);
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe("node statistics", () => {
  const usage: NodeUsage = {
    cpu: 0.25,
    wait: 0.1,
    loadavg: [1, 2, 3],
    memory: { total: 8, used: 4, free: 2, available: 4 },
    swap: { total: 2, used: 1, free: 1 },
    rootfs: { total: 10, used: 5, free: 5, avail: 4 },
    uptimeSeconds: 1,
    netIn: 100,
    netOut: 200,
  };

  test("every value belongs to a source and back", () => {
    const names = nodeSources.map((source) => source.name).toSorted();
    expect(Object.keys(nodeValues(usage, 4)).toSorted()).toEqual(names);
    expect(nodeValues(usage, 4, { cpu: "some avg10=3.5 avg60=0" })).toMatchObject({
      maxcpu: 4,
      pressurecpusome: 3.5,
    });
  });

  test("are sampled until told to stop; a failed sample is told and passed over", async () => {
    const clock = new FakeClock(t0);
    const rrd = RrdFile.open(path, nodeSources);
    const stop = new AbortController();
    const errors: unknown[] = [];
    let calls = 0;
    const kept = keepNodeStatistics(
      {
        archive: rrd,
        usage: () => (++calls === 2 ? Promise.reject(new Error("no")) : Promise.resolve(usage)),
        cpus: () => 2,
        files: madeUpFiles({}),
        clock,
        onError: (err) => errors.push(err),
      },
      stop.signal,
    );
    await clock.advance(61_000);
    stop.abort();
    await kept;
    expect(errors).toHaveLength(1);
    expect(rrd.rows("hour", "AVERAGE", clock.now()).at(-2)).toMatchObject({ cpu: 0.25, maxcpu: 2, netin: 0 });
    rrd.close();
  });
});
