import { describe, expect, test } from "vitest";
import fc from "fast-check";
import { readCdiSpec } from "./cdi-spec.ts";
import { offeredOf, type OwnedDevice, takeDevices } from "./owned-devices.ts";

const specOf = (kind: string, devices: Readonly<Record<string, readonly string[]>>) => {
  const spec = readCdiSpec({
    kind,
    devices: Object.entries(devices).map(([name, paths]) => ({
      name,
      containerEdits: { deviceNodes: paths.map((path) => ({ path })) },
    })),
  });
  if (spec === undefined) throw new Error("not read");
  return spec;
};
const KIND = "example.com/gpu";
const three = specOf(KIND, { a: ["/dev/a"], b: ["/dev/b"], c: ["/dev/c"] });
const ground = (others: readonly OwnedDevice[] = [], offered = [three]) => ({ offered, others, unread: [] });
const names = (devices: readonly OwnedDevice[]) => devices.map(({ name }) => name);

describe("devices of a worker", () => {
  test("are those that nobody else has, and stay its own", () => {
    const first = takeDevices("worker-1", { [KIND]: 2 }, [], ground());
    expect(names(first)).toEqual(["a", "b"]);
    const second = takeDevices("worker-2", { [KIND]: 1 }, [], ground(first));
    expect(names(second)).toEqual(["c"]);
    // Again, with others in front of it, and while the node describes none.
    expect(takeDevices("worker-2", { [KIND]: 1 }, second, ground())).toEqual(second);
    expect(takeDevices("worker-2", { [KIND]: 1 }, second, ground([], []))).toEqual(second);
  });

  test("are refused with numbers where too few are free", () => {
    const first = takeDevices("worker-1", { [KIND]: 2 }, [], ground());
    expect(() => takeDevices("worker-2", { [KIND]: 2 }, [], ground(first))).toThrow(
      `worker-2 is to have 2 ${KIND}: this node offers 3, of which 0 are its own and 1 are free`,
    );
    const unread = ["/etc/cdi/x.yaml is not read: others may write to it"];
    expect(() => takeDevices("w", { [KIND]: 1 }, [], { ...ground([], []), unread })).toThrow(
      "this node offers 0, of which 0 are its own and 0 are free; /etc/cdi/x.yaml is not read",
    );
  });

  test("have one owner also under another kind or another name", () => {
    const other = specOf("other.com/gpu", { x: ["/dev/a", "/dev/shared"] });
    const mine = takeDevices("w", { "other.com/gpu": 1 }, [], ground([], [three, other]));
    expect(names(takeDevices("w2", { [KIND]: 2 }, [], ground(mine, [three, other])))).toEqual(["b", "c"]);
    const renamed = specOf(KIND, { GPU0: ["/dev/a"], b: ["/dev/b"] });
    const before = takeDevices("w", { [KIND]: 1 }, [], ground());
    expect(names(takeDevices("w2", { [KIND]: 1 }, [], ground(before, [renamed])))).toEqual(["b"]);
    expect(names(offeredOf(KIND, [three, renamed]))).toEqual(["a", "b", "c"]);
  });

  test("are never two workers', whatever comes and goes", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(3), fc.nat(2)), { maxLength: 20 }), (steps) => {
        const has = new Map<number, readonly OwnedDevice[]>();
        for (const [worker, count] of steps) {
          const others = [...has].filter(([id]) => id !== worker).flatMap(([, devices]) => devices);
          try {
            has.set(worker, takeDevices("w", { [KIND]: count }, has.get(worker) ?? [], ground(others)));
          } catch {
            has.delete(worker);
          }
        }
        const all = names([...has.values()].flat());
        expect(new Set(all).size).toBe(all.length);
      }),
    );
  });
});
