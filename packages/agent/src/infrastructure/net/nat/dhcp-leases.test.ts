import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DhcpLeases, parseLeases } from "./dhcp-leases.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-leases-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a card has the address of its lease until that ends, and a new one when the file changes", () => {
  const file = join(folder, "a.leases");
  let now = 1_000_000;
  const leases = new DhcpLeases([join(folder, "none"), file], { now: () => now });
  expect(leases.addressOf("BC:24:11:00:00:01")).toBeUndefined();
  writeFileSync(file, "1100 bc:24:11:00:00:01 10.37.0.101 web 01:bc\n0 bc:24:11:00:00:02 10.37.0.102 * *\n");
  expect(leases.addressOf("BC:24:11:00:00:01")).toBe("10.37.0.101");
  expect(leases.addressOf("bc:24:11:00:00:02")).toBe("10.37.0.102");
  now = 1_100_000;
  expect(leases.addressOf("BC:24:11:00:00:01")).toBeUndefined();
  expect(leases.addressOf("BC:24:11:00:00:02")).toBe("10.37.0.102");
  writeFileSync(file, "1500 bc:24:11:00:00:01 10.37.0.7 web 01:bc:24\n");
  expect(leases.addressOf("BC:24:11:00:00:01")).toBe("10.37.0.7");
});

test("what is no lease is passed over", () => {
  const text = "duid 00:01\n12 no-mac 10.0.0.1\n12 bc:24:11:00:00:01 elsewhere\n12 bc:24:11:00:00:0";
  expect(parseLeases(text).size).toBe(0);
});
