import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import {
  evidenceCollection,
  localCollection,
  localId,
  managerCollection,
  MANAGER_STATUS_ID,
  resourceCollection,
} from "@gpve/domain/ha/collections.ts";
import type { LeaseReport } from "@gpve/domain/ha/fencing.ts";
import type { ManagerStatus, ServiceState } from "@gpve/domain/ha/model.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { GuestOrders } from "./guest-orders.ts";
import { LocalRounds, type GuardableGuest } from "./keep-local-manager.ts";
import { LocalEnvironment } from "./local-environment.ts";

type Records = Awaited<ReturnType<typeof openRecords>>;

let records: Records;
let isReachable: boolean;
let rounds: LocalRounds;
let environment: LocalEnvironment;
let lease: LeaseReport;
let wishes: boolean[];
let guests: Map<string, GuardableGuest>;
let moveFails = false;
let canMoveLive = false;
let moves: object[] = [];
let startFails: boolean;
let ignoresButton: boolean;
let done: string[];
let close: () => Promise<void>;

beforeEach(async () => {
  const store = openSqliteStore({ path: ":memory:" });
  records = await openRecords(store, { prefix: "/gpve/", log: silentLogger });
  isReachable = true;
  lease = { held: false, token: 0, deadline: 0, renewed: Number.MAX_SAFE_INTEGER };
  [wishes, done] = [[], []];
  guests = new Map();
  startFails = false;
  const { engine } = testEngine();
  const operation = (type: string, run: (vmid: number) => void) =>
    engine.register({
      type,
      onCrash: "resume",
      steps: [{ name: type, run: async ({ args }: { args: { vmid: number } }) => run(args.vmid) }],
    });
  operation("start", (vmid) => {
    if (startFails) throw new Error("no disk");
    rounds.guardOf(String(vmid));
    guests.set(String(vmid), fakeGuest(String(vmid), true));
  });
  [moves, moveFails, canMoveLive] = [[], false, false];
  engine.register({
    type: "move",
    onCrash: "resume",
    steps: [
      {
        name: "move",
        run: async ({ args }: { args: { vmid: number; target: string } }) => {
          moves.push(args);
          if (moveFails) throw new Error("too busy");
          const moved = { vmid: args.vmid, type: "qemu", node: args.target, conf: "" } as const;
          await records.transact((tx) => tx.put(guestCollection, String(args.vmid), guestRecord(moved)));
          guests.delete(String(args.vmid));
        },
      },
    ],
  });
  ignoresButton = false;
  engine.register({
    type: "shutdown",
    steps: [
      {
        name: "shutdown",
        run: async ({ args, signal }: { args: { vmid: number }; signal: AbortSignal }) => {
          if (ignoresButton)
            await new Promise((_, fail) =>
              signal.addEventListener("abort", () => fail(signal.reason as Error)),
            );
          guests.delete(String(args.vmid));
        },
      },
    ],
  });
  engine.register({
    type: "stop",
    overtakes: ["shutdown"],
    steps: [
      {
        name: "stop",
        run: async ({ args }: { args: { vmid: number } }) => void guests.delete(String(args.vmid)),
      },
    ],
  });
  await engine.start();
  environment = new LocalEnvironment({
    node: "n1",
    clock: systemClock,
    log: silentLogger,
    bootMs: () => 1_000,
    records: () => {
      if (!isReachable) throw new Error("no server in reach");
      return records;
    },
    lease: () => lease,
    wish: (hold) => wishes.push(hold),
    wished: () => wishes.at(-1) === true,
    guests: new GuestOrders({
      engine,
      clock: systemClock,
      log: silentLogger,
      isHere: (vmid) => records.collection(guestCollection).get(String(vmid))?.value.node === "n1",
      kindOf: () => ({
        noun: "VM",
        list: () => [],
        isRunning: (vmid) => guests.has(String(vmid)),
        operations: {
          start: "start",
          shutdown: "shutdown",
          stop: "stop",
          pause: "pause",
          ...(canMoveLive ? { move: "move" } : {}),
        },
      }),
      notMovable: (_vmid, target) => (target === "n9" ? "no such disk there" : undefined),
    }),
    allGuarded: () => rounds.allGuarded(),
    unguardAll: () => rounds.unguardAll(),
  });
  rounds = new LocalRounds({
    environment,
    clock: systemClock,
    log: silentLogger,
    running: () => [...guests.values()],
    sidOf: (vmid) => `vm:${vmid}`,
    guardFile: "/run/deadline",
    ensureFence: () => undefined,
  });
  await records.transact((tx) => {
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" }));
    const plain = { maxRestart: 1, maxRelocate: 1, failback: true, autoRebalance: true };
    tx.put(resourceCollection, "vm:100", { sid: "vm:100", state: "started", ...plain });
  });
  close = async () => {
    await engine.stop();
    await records.close();
    await store.close();
  };
});
afterEach(() => close());

test("a lease that was wished for before the machine lost its power is given back when nothing needs it", async () => {
  const said = async (service: { state: ServiceState; node: string; target?: string }) => {
    const status: ManagerStatus = {
      nodes: {},
      services: { "vm:100": { uid: "u", ...service } },
      maintenance: {},
    };
    await records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
    wishes.push(true);
    await rounds.round();
    return wishes.at(-1);
  };
  expect(await said({ state: "started", node: "n1" })).toBe(true);
  expect(await said({ state: "migrate", node: "n2", target: "n1" })).toBe(true);
  guests.set("100", fakeGuest("100", true));
  expect(await said({ state: "started", node: "n2" })).toBe(true);
  guests.clear();
  isReachable = false;
  expect(await said({ state: "started", node: "n2" }).catch(() => wishes.at(-1))).toBe(true);
  isReachable = true;
  expect(await said({ state: "started", node: "n2" })).toBe(false);
});

function fakeGuest(id: string, isGuarded: boolean): GuardableGuest {
  return {
    id,
    hasExited: false,
    isGuarded,
    guard: async (file) => {
      done.push(`guard ${id} ${file}`);
      guests.set(id, fakeGuest(id, true));
    },
    unguard: async () => {
      done.push(`unguard ${id}`);
      guests.set(id, fakeGuest(id, false));
    },
  };
}

const manager = async (state: ServiceState, more: Partial<ManagerStatus> = {}, target?: string) => {
  const services = { "vm:100": { state, node: "n1", uid: `${state}-1`, target } };
  const status = { nodes: { n1: "online" as const }, services, maintenance: {}, ...more };
  await records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
};
const holds = () => (lease = { ...lease, held: true, deadline: 9_000, token: 1 });
const local = () => records.collection(localCollection).get(localId("n1"))?.value;
const exit = () => Object.values(local()?.results ?? {})[0]?.exit;
const until = (check: () => void) =>
  vi.waitFor(
    async () => {
      await rounds.round();
      check();
    },
    { timeout: 30_000, interval: 5 },
  );

test("asks for the lease, and starts what it is told only when it has it", async () => {
  await manager("started");
  await rounds.round();
  expect(wishes).toEqual([true]);
  expect(guests.size).toBe(0);
  expect(local()).toMatchObject({ state: "wait_for_agent_lock", guarded: true });
  expect(() => rounds.guardOf("100")).toThrow("does not hold the lease");
  holds();
  await until(() => expect(exit()).toBe("success"));
  expect([...guests.keys()]).toEqual(["100"]);
  expect(rounds.guardOf("100")).toBe("/run/deadline");
  expect(rounds.guardOf("100-tpm")).toBeUndefined();
  const said = records.collection(evidenceCollection).list();
  expect(JSON.stringify(said)).toContain("service status vm:100 started");
});

test("a start that fails is tried again as often as is wanted, then told, with what stood against it", async () => {
  holds();
  startFails = true;
  await manager("started");
  await until(() => expect(exit()).toBe("error"));
  const said = JSON.stringify(records.collection(evidenceCollection).list());
  expect(said).toContain("retry number 1");
  expect(said).toMatch(/unable to start service vm:100: [^"]*no disk/);
});

test("a start that fails because somebody else has started the guest is none that failed", async () => {
  holds();
  await records.transact((tx) => {
    const resource = tx.get(resourceCollection, "vm:100")?.value;
    if (resource !== undefined) tx.put(resourceCollection, "vm:100", { ...resource, maxRestart: 0 });
  });
  startFails = true;
  await manager("started");
  await rounds.round();
  guests.set("100", fakeGuest("100", true));
  await until(() => expect(exit()).toBe("success"));
  expect(JSON.stringify(records.collection(evidenceCollection).list())).not.toContain("unable to start");
});

test("a guest that comes under HA while it runs gets a deadline, and loses it with HA", async () => {
  guests.set("100", fakeGuest("100", false));
  guests.set("7", fakeGuest("7", false));
  await manager("started");
  await rounds.round();
  expect(local()).toMatchObject({ guarded: false });
  holds();
  await rounds.round();
  await rounds.round();
  expect(done).toEqual(["guard 100 /run/deadline"]);
  expect(local()).toMatchObject({ guarded: true, state: "active" });
  await records.transact((tx) => tx.delete(resourceCollection, "vm:100"));
  await rounds.round();
  expect(done.at(-1)).toBe("unguard 100");
});

test("one that was taken out of HA and then stopped stays so, whatever the manager said last", async () => {
  holds();
  await manager("started");
  await until(() => expect([...guests.keys()]).toEqual(["100"]));
  await records.transact((tx) => tx.delete(resourceCollection, "vm:100"));
  guests.delete("100");
  for (let round = 0; round < 3; round++) await rounds.round();
  await new Promise((resolve) => setImmediate(resolve));
  expect([...guests.keys()]).toEqual([]);
});

test("disarmed, it says that its guests have no deadline before it lets the lease go", async () => {
  guests.set("100", fakeGuest("100", true));
  await manager("started");
  holds();
  await rounds.round();
  await manager("freeze", { disarm: { mode: "freeze", state: "pending" } });
  await rounds.round();
  expect(local()).toMatchObject({ state: "wait_for_agent_lock", guarded: false });
  expect(done).toEqual(["unguard 100"]);
  expect(wishes.at(-1)).toBe(false);
});

test("stops, and makes ready to move, what it is told; refuses what cannot go", async () => {
  holds();
  guests.set("100", fakeGuest("100", true));
  await manager("request_stop");
  await until(() => expect(exit()).toBe("success"));
  expect(guests.size).toBe(0);
  guests.set("100", fakeGuest("100", true));
  await manager("migrate", {}, "n2");
  await until(() => expect(local()?.results["migrate-1"]?.exit).toBe("success"));
  expect(guests.size).toBe(0);
  await manager("relocate", {}, "n9");
  await until(() => expect(local()?.results["relocate-1"]?.exit).toBe("error"));
  expect(JSON.stringify(records.collection(evidenceCollection).list())).toContain(
    "service vm:100 not moved (migration error): no such disk there",
  );
});

test("a hard stop ends a shutdown that the guest ignores", async () => {
  holds();
  ignoresButton = true;
  guests.set("100", fakeGuest("100", true));
  const stopping = (uid: string, timeoutS: number) =>
    records.transact((tx) =>
      tx.put(managerCollection, MANAGER_STATUS_ID, {
        nodes: { n1: "online" as const },
        services: { "vm:100": { state: "request_stop" as const, node: "n1", uid, timeoutS } },
        maintenance: {},
      }),
    );
  await stopping("soft", 600);
  for (let round = 0; round < 3; round++) await rounds.round();
  expect(local()?.results["soft"]).toBeUndefined();
  await stopping("hard", 0);
  await until(() => expect(local()?.results["hard"]?.exit).toBe("success"));
  expect(guests.size).toBe(0);
  const said = JSON.stringify(records.collection(evidenceCollection).list());
  expect(said).toContain("stopping service vm:100 (timeout=0)");
  expect(said).not.toContain("unable to stop");
});

test("moves a running guest live, by the manager's order; one that cannot go runs on", async () => {
  holds();
  canMoveLive = true;
  moveFails = true;
  guests.set("100", fakeGuest("100", true));
  await manager("migrate", {}, "n2");
  await until(() => expect(local()?.results["migrate-1"]?.exit).toBe("error"));
  expect(guests.size).toBe(1);
  moveFails = false;
  await manager("started");
  await rounds.round();
  await manager("migrate", {}, "n2");
  await until(() => expect(local()?.results["migrate-1"]?.exit).toBe("success"));
  expect(guests.size).toBe(0);
  expect(moves.at(-1)).toEqual({
    vmid: 100,
    moveId: "migrate-1",
    target: "n2",
    online: true,
    withLocalDisks: false,
  });
});

test("does nothing while no server is in reach, and goes on when one is", async () => {
  isReachable = false;
  await rounds.round();
  expect(wishes).toEqual([]);
  isReachable = true;
  await manager("started");
  const stop = new AbortController();
  const running = rounds.run(stop.signal);
  await vi.waitFor(() => expect(wishes).toEqual([true]), { timeout: 30_000 });
  stop.abort(new Error("over"));
  await running;
});

test("a node that goes down stops its guests first, and starts them again when it stays after all", async () => {
  holds();
  guests.set("100", fakeGuest("100", true));
  await manager("started");
  await rounds.round();
  await records.transact((tx) =>
    tx.put({ prefix: "/gpve/cluster/", decode: (json: unknown) => json }, "options", {
      ha: "shutdown_policy=failover",
    }),
  );
  const left = rounds.leave("shutdown", 5_000);
  await until(() => expect(guests.size).toBe(0));
  await rounds.round();
  await rounds.round();
  await left;
  expect(wishes.at(-1)).toBe(false);
  await rounds.round();
  expect([wishes.at(-1), guests.size]).toEqual([false, 0]);
  // The machine was told to go, and did not.
  rounds.resume();
  await until(() => expect(guests.size).toBe(1));
  expect(wishes.at(-1)).toBe(true);
});
