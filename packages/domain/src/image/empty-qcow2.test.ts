import { expect, test } from "vitest";
import { emptyQcow2 } from "./empty-qcow2.ts";

const CLUSTER = 65_536;

test("says its size, in whole sectors, and counts its own clusters", () => {
  const image = emptyQcow2(10_000_001);
  const view = new DataView(image.buffer);
  expect([view.getUint32(0), view.getUint32(4)]).toEqual([0x514649fb, 3]);
  expect(view.getBigUint64(24)).toBe(10_000_384n);
  expect(image).toHaveLength(4 * CLUSTER);
  const counts = Array.from({ length: 5 }, (_, index) => view.getUint16(2 * CLUSTER + index * 2));
  expect(counts).toEqual([1, 1, 1, 1, 0]);
});

test("has a first table as large as the disk needs", () => {
  const view = new DataView(emptyQcow2(20 * 1024 ** 4).buffer);
  expect(view.getUint32(36)).toBe(40_960);
  expect(view.byteLength).toBe((3 + 5) * CLUSTER);
});
