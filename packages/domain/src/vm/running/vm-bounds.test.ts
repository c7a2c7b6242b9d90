import fc from "fast-check";
import { expect, test } from "vitest";
import { fileServerBounds, vmBounds } from "./vm-bounds.ts";

const GIB = 1024 ** 3;

test("are well above a guest's memory, and grow with what it has", () => {
  const plain = vmBounds({});
  expect(plain.memoryBytes).toBeGreaterThan(2.5 * GIB);
  expect(plain.memoryBytes).toBeLessThan(4 * GIB);
  expect(plain.tasks).toBeLessThan(1_000);
  fc.assert(
    fc.property(fc.integer({ min: 16, max: 4_178_944 }), fc.integer({ min: 1, max: 64 }), (memory, cores) => {
      const { memoryBytes = 0, tasks = 0 } = vmBounds({ memory: String(memory), cores: String(cores) });
      expect(memoryBytes).toBeGreaterThanOrEqual(memory * 1024 ** 2 + 2 * GIB);
      expect(Number.isSafeInteger(memoryBytes)).toBe(true);
      expect(tasks).toBeGreaterThanOrEqual(512 + 4 * cores);
    }),
  );
  const more = vmBounds({
    scsi0: "local:1/a.raw",
    scsi1: "local:1/b.raw",
    ivshmem: "size=256",
    vga: "qxl,memory=256",
  });
  expect((more.memoryBytes ?? 0) - (plain.memoryBytes ?? 0)).toBeGreaterThan(GIB);
  expect((more.tasks ?? 0) - (plain.tasks ?? 0)).toBe(128);
});

test("have no memory where `args` may bring some of its own", () => {
  expect(vmBounds({ args: "-object memory-backend-ram,id=x,size=8G" })).toEqual({ tasks: 516 });
});

test("of a file server hold the guest's memory, which it shares", () => {
  expect(fileServerBounds({ memory: "4096" }).memoryBytes).toBe(5 * GIB);
});
