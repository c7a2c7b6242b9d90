import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { expect, test } from "vitest";
import { FakeGuests } from "../../../testing/fake-guests.ts";
import { Arrivals } from "./arrivals.ts";
import { vmArrivals } from "./vm-arrivals.ts";

const end = { node: "n1", address: "192.0.2.1", port: 1, fingerprint: "aa" };
const move = { vmid: 100, id: "move", from: end, to: { ...end, node: "n2" }, at: 1 } as unknown as GuestMove;
const start = { id: "100", label: "VM 100", program: "/bin/true", args: [], files: [] };
const engine = {} as OperationEngine;

test("nothing of a VM that was not prepared for is shown", async () => {
  const processes = new FakeGuests();
  await processes.startQemu(start);
  const arrivals = vmArrivals({ processes }, engine, new Arrivals());
  expect(arrivals.has(move)).toBe(false);
  expect(() => arrivals.socketOf(move, "ram")).toThrow("nothing was prepared for VM 100");
  await expect(arrivals.announce?.(move)).rejects.toThrow("nothing was prepared for VM 100");
});

test("one that comes is reached where its QEMU waits, and nowhere else", async () => {
  const processes = new FakeGuests();
  const none = (): never => {
    throw new Error("not asked for");
  };
  const open = { find: () => ({}), require: () => ({}), prepare: none, receive: none, start: none };
  const arrivals = vmArrivals({ processes }, engine, open as unknown as Arrivals);
  expect(arrivals.has(move)).toBe(true);
  expect(() => arrivals.socketOf(move, "nbd")).toThrow("VM 100 serves no nbd here");
  // A line to it is laid before it waits.
  const { path } = arrivals.socketOf(move, "ram");
  await arrivals.announce?.(move);
  const process = await processes.startQemu(start);
  expect(path).toBe(`${process.ioFolder}/ram`);
  expect(arrivals.socketOf(move, "nbd")).toMatchObject({ path: `${process.ioFolder}/nbd` });
  expect(() => arrivals.socketOf(move, "monitor")).toThrow("VM 100 serves no monitor here");
  await arrivals.announce?.(move);
});
