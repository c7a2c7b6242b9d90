import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test } from "vitest";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { bootedSince } from "../vm/boot-marker.ts";
import { GuestStatisticsFiles } from "./guest-statistics.ts";

const folder = mkdtempSync(join(tmpdir(), "gpve-rrd-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const guest = (at: number): GuestRuntime => ({
  vmid: 100,
  type: "qemu",
  status: "running",
  uptimeSeconds: at,
  cpu: 0.5,
  mem: 64,
  memhost: 80,
  diskread: at * 10,
  diskwrite: 0,
  netin: 0,
  netout: 0,
});

const summary = { cpus: 2, maxmem: 128, maxdisk: 1 };

test("keeps the figures of a guest until it is destroyed", () => {
  const files = new GuestStatisticsFiles(folder);
  const start = 1_700_000_040_000;
  for (let seconds = 0; seconds <= 120; seconds += 10) {
    files.sample(
      start + seconds * 1000,
      [guest(seconds)],
      [
        { vmid: 100, summary },
        { vmid: 101, summary },
      ],
    );
  }
  const rows = files.rows(100, "hour", "AVERAGE", start + 120_000);
  expect(rows).toContainEqual(expect.objectContaining({ cpu: 0.5, maxcpu: 2, mem: 64, diskread: 10 }));
  // A stopped one has what it is given, and uses nobody knows what.
  const stopped = files.rows(101, "hour", "AVERAGE", start + 120_000).filter((row) => "maxcpu" in row);
  expect(stopped).toHaveLength(2);
  expect(stopped[0]).toEqual({ time: start / 1000, maxcpu: 2, maxmem: 128, maxdisk: 1, disk: 0 });
  files.prune((vmid) => vmid === 100);
  expect(existsSync(join(folder, "guest-101.rrd"))).toBe(false);
  expect(existsSync(join(folder, "guest-100.rrd"))).toBe(true);
  files.prune(() => false);
  expect(existsSync(join(folder, "guest-100.rrd"))).toBe(false);
  files.close();
  rmSync(folder, { recursive: true });
  files.prune(() => false);
});

test("a boot is noticed once", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-boot-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "boot-id");
  expect(bootedSince(file, "a")).toBe(false);
  expect(bootedSince(file, "a")).toBe(false);
  expect(bootedSince(file, "b")).toBe(true);
  expect(bootedSince(file, "b")).toBe(false);
});
