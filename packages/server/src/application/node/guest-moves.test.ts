import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { moveCollection, MOVE_KEPT_MS, type GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { decided } from "@gpve/domain/access/testing/decided.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { beforeEach, describe, expect, test } from "vitest";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "./collections.ts";
import { GuestMoves, withGuestMoves } from "./guest-moves.ts";
import { joinedNode } from "../../testing/joined-node.ts";

let records: MemoryRecords;
let moves: GuestMoves;
let now = 1_000;

const clock = { ...systemClock, now: () => now };
const ROUTE = "POST /nodes/{node}/qemu/{vmid}/migrate";

beforeEach(async () => {
  now = 1_000;
  records = new MemoryRecords();
  moves = new GuestMoves({ records, clock });
  await records.transact((tx) => {
    for (const [nodeid, name] of ["n1", "n2", "n3"].entries())
      tx.put(
        nodeRecords,
        name,
        joinedNode(name, {
          nodeid,
          address: `10.0.0.${nodeid}`,
          port: 8444,
          certFingerprint: `AA:${name}`,
          ...(name === "n2" ? { previousFingerprint: "AA:old" } : {}),
        }),
      );
    const guest = { vmid: 100, type: "qemu" as const, node: "n1", conf: "name: g\n", madeBy: "r" };
    tx.put(guestCollection, "100", guestRecord(guest));
  });
});

/** n3 is full. */
const requireMovable = (vmid: number, target: string): void => {
  if (target === "n3") throw new AppError("capacity.exceeded", `n3 has no room for VM ${vmid}`);
};
const guest = () => records.collection(guestCollection).get("100")?.value;
const notes = (): string[] =>
  records
    .collection(moveCollection)
    .list()
    .map(({ id }) => id);
const code = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (err: unknown) => (isAppError(err) ? err.code : String(err)),
  );

describe("a move", () => {
  test("is noted with both ends before the node is told", async () => {
    const told: string[][] = [];
    const agent = withGuestMoves(
      {
        node: "n1",
        call: () => {
          told.push(notes());
          return Promise.resolve({ data: null });
        },
        close: () => undefined,
      },
      moves,
      requireMovable,
    );
    const call = (route: string, params: Record<string, unknown>): Promise<unknown> =>
      agent.call(
        { decision: decided(route, { node: "n1" }), params, requestId: "r1", clientAddress: "" },
        new AbortController().signal,
      );
    const clone = (target: string) =>
      call("POST /nodes/{node}/qemu/{vmid}/clone", { vmid: 99, newid: 101, target });
    await call("POST /nodes/{node}/qemu/{vmid}/status/start", { vmid: 100, target: "n2" });
    await clone("n1");
    await call(ROUTE, { vmid: 100, target: "n2" });
    await clone("n2");
    expect(told).toEqual([[], [], ["100.r1"], ["100.r1", "101.r1"]]);
    await expect(clone("n9")).rejects.toThrow("no such cluster node 'n9'");
    expect(records.collection(moveCollection).get("100.r1")?.value).toEqual({
      vmid: 100,
      id: "r1",
      from: { node: "n1", address: "10.0.0.0", port: 8444, fingerprints: ["AA:n1"] },
      to: { node: "n2", address: "10.0.0.1", port: 8444, fingerprints: ["AA:n2", "AA:old"] },
      at: 1_000,
    });
    await expect(call(ROUTE, { vmid: 100, target: "n9" })).rejects.toThrow("no such cluster node 'n9'");
    expect(await code(call(ROUTE, { vmid: 100, target: "n1" }))).toBe("request.invalid");
    expect(await code(call(ROUTE, { vmid: 102, target: "n3" }))).toBe("capacity.exceeded");
    expect([notes(), told.length]).toEqual([["100.r1", "101.r1"], 4]);
  });

  test("is noted with what is wanted of it, and how far the nodes are from each other", async () => {
    const told: unknown[] = [];
    const agent = withGuestMoves(
      {
        node: "n1",
        call: ({ params }) => {
          told.push(params);
          return Promise.resolve({ data: null });
        },
        close: () => undefined,
      },
      moves,
      requireMovable,
    );
    const ask = async (requestId: string, more: Record<string, unknown>): Promise<GuestMove | undefined> => {
      const params = { vmid: 100, target: "n2", ...more };
      const decision = decided(ROUTE, { node: "n1" });
      await agent.call({ decision, params, requestId, clientAddress: "" }, new AbortController().signal);
      return records.collection(moveCollection).get(`100.${requestId}`)?.value;
    };
    const label = (name: string, region: string): Promise<void> =>
      records.transact((tx) => {
        const node = tx.get(nodeRecords, name)?.value;
        if (node !== undefined)
          tx.put(nodeRecords, name, { ...node, labels: { "topology.gpve.io/region": region } });
      });
    expect(await ask("r1", { compression: "on", online: 1 })).toMatchObject({ compression: "on" });
    // The node checks PVE's parameters, and this is none.
    expect(told).toEqual([{ vmid: 100, target: "n2", online: 1 }]);
    await label("n1", "north");
    expect(await ask("r2", {})).not.toHaveProperty("isFar");
    await label("n2", "south");
    expect(await ask("r3", { compression: "off" })).toMatchObject({ isFar: true, compression: "off" });
    await label("n2", "north");
    expect(await ask("r4", {})).not.toHaveProperty("isFar");
    expect(await code(ask("r5", { compression: "zip" }))).toBe("request.invalid");
    expect(await code(ask("r6", { postcopy: 1 }))).toBe("feature.unsupported");
    expect(notes()).toEqual(["100.r1", "100.r2", "100.r3", "100.r4"]);
  });

  test("changes owner, fence and configuration in one go, once", async () => {
    await moves.open("n1", 100, "n2", "r1");
    expect(await moves.handOver("n1", { vmid: 100, moveId: "r1", conf: "name: h\n" })).toBe("n2");
    expect(guest()).toMatchObject({ node: "n2", fence: 1, conf: "name: h\n", madeBy: "r" });
    expect(notes()).toEqual([]);
    // The answer got lost: it is asked again.
    expect(await moves.handOver("n1", { vmid: 100, moveId: "r1" })).toBe("n2");
    expect(guest()?.fence).toBe(1);
  });

  test("that was called off by either end never happens", async () => {
    for (const end of ["n1", "n2"]) {
      await moves.open("n1", 100, "n2", end);
      expect(await moves.withdraw(end, { vmid: 100, moveId: end })).toBe("n1");
      expect(await moves.handOver("n1", { vmid: 100, moveId: end })).toBe("n1");
    }
    expect(guest()?.node).toBe("n1");
  });

  test("is nobody else's, and not for ever", async () => {
    await moves.open("n1", 100, "n2", "r1");
    expect(await code(moves.handOver("n2", { vmid: 100, moveId: "r1" }))).toBe("access.denied");
    expect(await code(moves.handOver("n3", { vmid: 100, moveId: "r1" }))).toBe("access.denied");
    expect(await code(moves.withdraw("n3", { vmid: 100, moveId: "r1" }))).toBe("access.denied");
    expect(await code(moves.handOver("n1", { vmid: 101, moveId: "r1" }))).toBe("object.not_found");
    now += MOVE_KEPT_MS;
    expect(await code(moves.handOver("n1", { vmid: 100, moveId: "r1" }))).toBe("object.conflict");
    await moves.open("n1", 100, "n3", "r2");
    expect(notes()).toEqual(["100.r2"]);
    await records.transact((tx) => tx.delete(nodeRecords, "n3"));
    expect(await code(moves.handOver("n1", { vmid: 100, moveId: "r2" }))).toBe("object.not_found");
    expect(guest()).toMatchObject({ node: "n1", fence: 0 });
  });
});
