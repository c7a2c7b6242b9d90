import type { SchedulerConfiguration } from "@gpve/kit/config/configuration.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus, type ManagerStatus } from "@gpve/domain/ha/model.ts";
import type { Extend } from "@gpve/domain/scheduler/plugin.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SchedulerWorld } from "../../testing/scheduler-world.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { nodeRecords } from "../node/collections.ts";
import { rebalancePlanAdapter } from "../v1/adapters/rebalance-plan.ts";
import { cacheReader } from "../v1/adapter.ts";
import { DEFAULT_REBALANCE, Rebalancer } from "./rebalancer.ts";
import { rebalancePlansDef, type PlanRecord } from "./rebalance-records.ts";

const taint = { taints: ["gone:NoSchedule"] };
let world: SchedulerWorld;
let asked: Record<string, unknown>[];
let refuse: string | undefined;
/** Tasks have begun, and nobody hears of their end. */
let silent: boolean;
/** HA, which the task only tells, has not moved the guest. */
let byHa: boolean;
let stop: AbortController;
let running: Promise<void>;

const open = async (
  rebalance: Partial<SchedulerConfiguration["rebalance"]> = {},
  extend?: Extend,
): Promise<void> => {
  const settings = { ...DEFAULT_REBALANCE, ...rebalance };
  const config = { plugins: { filter: [], score: [] }, rebalance: settings };
  world = await SchedulerWorld.with(["n1", "n2"], { config: config as unknown as SchedulerConfiguration });
  stop = new AbortController();
  let tasks = 0;
  const calls = {
    call: async (node: string, route: string, params: { vmid: string; target: string }, ctx: object) => {
      asked.push({ node, route, ...params, ...ctx });
      const type = byHa ? "hamigrate" : "qmigrate";
      const upid = `UPID:${node}:00000001:0000000${++tasks}:65000000:${type}:${params.vmid}:root@pam:`;
      if (refuse === "at once") throw new AppError("feature.unsupported", "no migration here");
      if (silent) return { data: upid };
      const exitstatus = refuse ?? "OK";
      await world.records.transact((tx) => {
        const guest = tx.get(guestCollection, params.vmid)?.value;
        if (guest !== undefined && exitstatus === "OK" && !byHa)
          tx.put(guestCollection, params.vmid, { ...guest, node: params.target });
        tx.put(taskRecords, taskRecordId(upid) ?? "", { upid, endtime: 1, exitstatus });
      });
      return { data: upid };
    },
  } as unknown as Pick<NodeCalls, "call">;
  const { records, board, clock, scheduler } = world;
  const { view, figures } = scheduler;
  const extended = {
    records,
    board,
    clock,
    view,
    figures,
    settings,
    extend,
    newId: String,
    log: silentLogger,
  };
  const rebalancer =
    extend === undefined ? scheduler.rebalancer : new Rebalancer({ ...extended, policy: readPolicy() });
  running = rebalancer.run(calls, stop.signal);
};
beforeEach(() => {
  asked = [];
  refuse = undefined;
  byHa = false;
  silent = false;
});
afterEach(async () => {
  stop.abort(new Error("stopping"));
  await running;
  world.stop();
});

const plans = (): readonly PlanRecord[] =>
  world.records
    .collection(rebalancePlansDef)
    .list()
    .map(({ value }) => value);
const runningGuest = async (vmid: number, node: string): Promise<void> => {
  await world.guest(vmid, node);
  const runs = [...world.scheduler.view.state().guests()].filter((guest) => guest.node === node);
  world.report(
    node,
    runs.map(({ request }) => Number(request.id.slice(3))),
  );
};

describe("a plan of moves", () => {
  it("is made on request, waits for approval, and is then carried out move by move", async () => {
    await open();
    await runningGuest(100, "n1");
    await runningGuest(101, "n1");
    await world.node("n1", taint);
    const plan = world.scheduler.rebalancer.plan({}, "joe@pve");
    expect(plan).toMatchObject({
      phase: "Proposed",
      by: "joe@pve",
      violations: [{ rule: "TaintToleration" }, {}],
    });
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", plan));
    await world.clock.advance(120_000);
    expect(asked).toEqual([]);
    await world.records.transact((tx) =>
      tx.put(rebalancePlansDef, "p1", { ...plan, spec: { approved: true } }),
    );
    await world.clock.advance(5_000);
    expect(asked).toMatchObject([
      { node: "n1", vmid: "100", target: "n2", online: 1, work: "rebalance" },
      { node: "n1", vmid: "101", target: "n2" },
    ]);
    expect(plans()[0]).toMatchObject({ phase: "Done", moves: [{ state: "done" }, { state: "done" }] });
    expect(world.scheduler.figures.text()).toContain("gpve_scheduler_violations");
  });

  it("stops at a move that fails, and skips what is not there any more", async () => {
    await open();
    await runningGuest(100, "n1");
    await runningGuest(101, "n1");
    await world.node("n1", taint);
    const plan = world.scheduler.rebalancer.plan({ approved: true }, "joe@pve");
    await world.gone(100);
    refuse = "storage is full";
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", plan));
    await world.clock.advance(5_000);
    expect(plans()[0]).toMatchObject({
      phase: "Failed",
      message: "vm/101: storage is full",
      moves: [{ state: "skipped" }, { state: "failed", message: "storage is full" }],
    });
    refuse = "at once";
    await world.records.transact((tx) =>
      tx.put(rebalancePlansDef, "p2", world.scheduler.rebalancer.plan({ approved: true }, "joe@pve")),
    );
    await world.clock.advance(5_000);
    expect(plans()[1]).toMatchObject({ phase: "Failed", message: "vm/101: no migration here" });
  });

  it("ends where the node that moves is lost, and the next plan has its turn", async () => {
    await open();
    for (const vmid of [100, 101]) await runningGuest(vmid, "n1");
    await runningGuest(102, "n2");
    await world.node("n1", taint);
    silent = true;
    const plan = world.scheduler.rebalancer.plan({ approved: true, maxMoves: 1 }, "joe@pve");
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", plan));
    await world.clock.advance(300_000);
    expect(plans()[0]).toMatchObject({ phase: "Running", moves: [{ state: "moving" }] });
    const other = { ...plan, moves: [{ ...plan.moves[0], guest: "vm/102", from: "n2", to: "n1" }] };
    await world.records.transact((tx) => {
      tx.put(rebalancePlansDef, "p2", other as PlanRecord);
      tx.delete(nodeRecords, "n1");
    });
    silent = false;
    await world.clock.advance(30_000);
    expect(plans()).toMatchObject([
      { phase: "Failed", message: "vm/100: node 'n1' is not online", moves: [{ state: "failed" }] },
      { phase: "Done", moves: [{ state: "done" }] },
    ]);
  });

  it("is not waited for any more once it is deleted by force", async () => {
    await open();
    for (const vmid of [100, 101]) await runningGuest(vmid, "n1");
    await world.node("n1", taint);
    silent = true;
    const plan = world.scheduler.rebalancer.plan({ approved: true }, "joe@pve");
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", plan));
    await world.clock.advance(10_000);
    const { write } = rebalancePlanAdapter({ rebalancer: world.scheduler.rebalancer });
    await world.records.transact((tx) =>
      write?.remove(tx, { name: "p1", previous: undefined, force: true, ctx: {} as never }),
    );
    silent = false;
    const [, second] = plan.moves;
    await world.records.transact((tx) =>
      tx.put(rebalancePlansDef, "p2", { ...plan, moves: second === undefined ? [] : [second] }),
    );
    await world.clock.advance(10_000);
    expect(asked).toMatchObject([{ vmid: "100" }, { vmid: "101" }]);
    expect(plans()).toMatchObject([{ phase: "Done" }]);
  });

  it("waits for HA to move a guest of its own, and says so where it does not", async () => {
    await open();
    byHa = true;
    for (const vmid of [100, 101]) await runningGuest(vmid, "n1");
    await world.node("n1", taint);
    const plan = world.scheduler.rebalancer.plan({ approved: true }, "joe@pve");
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", plan));
    const service = (more: object): Promise<void> =>
      world.records.transact((tx) => {
        const services = { "vm:100": { state: "migrate", node: "n1", uid: "a", ...more } };
        tx.put(managerCollection, MANAGER_STATUS_ID, { ...emptyManagerStatus(), services } as ManagerStatus);
      });
    await service({ target: "n2" });
    await world.clock.advance(300_000);
    expect(asked).toHaveLength(1);
    expect(plans()[0]).toMatchObject({ phase: "Running", moves: [{ state: "moving" }, {}] });
    await world.records.transact((tx) => {
      const guest = tx.get(guestCollection, "100")?.value;
      if (guest !== undefined) tx.put(guestCollection, "100", { ...guest, node: "n2" });
    });
    await service({ state: "started", node: "n2" });
    await world.clock.advance(70_000);
    expect(asked).toHaveLength(2);
    expect(plans()[0]).toMatchObject({
      phase: "Failed",
      message: "vm/101: HA did not move it; gpvectl ha explain vm:101 says why",
      moves: [{ state: "done" }, { state: "failed" }],
    });
  });

  it("comes by itself where that is configured: violations at once, balance when it lasts; guests rest afterwards", async () => {
    await open({ mode: "auto", intervalSeconds: 10, holdRounds: 3, threshold: 20 });
    for (const vmid of [100, 101, 102]) await runningGuest(vmid, "n1");
    await world.clock.advance(15_000);
    expect(asked).toEqual([]);
    await world.clock.advance(30_000);
    expect(asked).toMatchObject([{ vmid: "100", target: "n2" }]);
    expect(plans()[0]).toMatchObject({ phase: "Done", by: "the rebalancer", moves: [{ rule: "Balance" }] });
    const again = world.scheduler.rebalancer.plan({ balance: true, threshold: 0 }, "joe@pve");
    expect(again.moves.map(({ guest }) => guest)).not.toContain("vm/100");
  });

  it("does not try over and over what failed: the guest rests, unless somebody asks", async () => {
    await open({ mode: "auto", intervalSeconds: 10, coolDownSeconds: 600 });
    await runningGuest(100, "n1");
    refuse = "storage is full";
    await world.node("n1", taint);
    await world.clock.advance(120_000);
    expect(plans().map(({ phase }) => phase)).toEqual(["Failed"]);
    const byHand = world.scheduler.rebalancer.plan({}, "joe@pve");
    expect(byHand.moves).toMatchObject([{ guest: "vm/100" }]);
    refuse = undefined;
    await world.clock.advance(600_000);
    expect(plans().map(({ phase }) => phase)).toEqual(["Failed", "Done"]);
  });

  it("is only proposed in mode plan, and there is one at a time", async () => {
    await open({ mode: "plan", intervalSeconds: 10 });
    await runningGuest(100, "n1");
    await world.node("n1", taint);
    await world.clock.advance(60_000);
    expect(plans()).toMatchObject([{ phase: "Proposed" }]);
    expect(asked).toEqual([]);
  });
});

describe("a move of a plan", () => {
  it("is made only where extenders let it", async () => {
    const requests: unknown[] = [];
    let refused: string | undefined = "no power";
    await open({}, async (request, nodes) => {
      requests.push([request.id, ...nodes]);
      return [{ name: "power", weight: 1, refuse: () => refused }];
    });
    await runningGuest(100, "n1");
    await world.node("n1", taint);
    const carriedOut = async (name: string): Promise<PlanRecord | undefined> => {
      const plan = world.scheduler.rebalancer.plan({ approved: true }, "joe@pve");
      await world.records.transact((tx) => tx.put(rebalancePlansDef, name, plan));
      await world.clock.advance(5_000);
      return world.records.collection(rebalancePlansDef).get(name)?.value;
    };
    expect(await carriedOut("p1")).toMatchObject({
      phase: "Failed",
      message: "vm/100: node n2 does not take it: no power",
    });
    expect(requests).toEqual([["vm/100", "n2"]]);
    expect(asked).toEqual([]);
    refused = undefined;
    expect(await carriedOut("p2")).toMatchObject({ phase: "Done", moves: [{ state: "done" }] });
    expect(asked).toMatchObject([{ vmid: "100", target: "n2" }]);
  });
});

describe("a plan that nobody approves", () => {
  it("keeps none back that comes by itself", async () => {
    await open({ mode: "auto", intervalSeconds: 10 });
    await runningGuest(100, "n1");
    await world.node("n1", taint);
    const forgotten = world.scheduler.rebalancer.plan({}, "joe@pve");
    const proposed = { ...forgotten, by: "the rebalancer" };
    await world.records.transact((tx) => {
      tx.put(rebalancePlansDef, "p1", forgotten);
      tx.put(rebalancePlansDef, "p2", proposed);
    });
    await world.clock.advance(30_000);
    expect(asked).toMatchObject([{ vmid: "100", target: "n2" }]);
    expect(plans().map(({ phase }) => phase)).toEqual(["Done", "Proposed", "Proposed"]);
  });

  it("lapses after a day where nobody asked for it, and what there is to do then is proposed", async () => {
    await open({ mode: "plan", intervalSeconds: 600 });
    await runningGuest(100, "n1");
    await world.node("n1", taint);
    const byHand = world.scheduler.rebalancer.plan({}, "joe@pve");
    await world.records.transact((tx) => tx.put(rebalancePlansDef, "p1", byHand));
    await world.clock.advance(1_200_000);
    expect(plans()).toMatchObject([
      { by: "the rebalancer", moves: [{ guest: "vm/100" }] },
      { by: "joe@pve" },
    ]);
    await world.gone(100);
    await runningGuest(101, "n1");
    await world.clock.advance(80_000_000);
    expect(plans()[0]).toMatchObject({ moves: [{ guest: "vm/100" }] });
    await world.clock.advance(10_000_000);
    expect(plans()).toMatchObject([
      { by: "the rebalancer", phase: "Proposed", moves: [{ guest: "vm/101" }] },
      { by: "joe@pve", phase: "Proposed", moves: [{ guest: "vm/100" }] },
    ]);
  });
});

describe("the object of a plan", () => {
  const ctx = { actor: { userid: "joe@pve", authid: "joe@pve" } } as never;
  const put = async (spec: object): Promise<void> => {
    const { write } = rebalancePlanAdapter({ rebalancer: world.scheduler.rebalancer });
    await world.records.transact((tx) =>
      write?.put(tx, { name: "p1", spec: { ...spec }, previous: undefined, labels: {}, ctx }),
    );
  };

  it("is worked out when it is made; only approving changes it, and only before it runs", async () => {
    await open();
    await runningGuest(100, "n1");
    await world.node("n1", taint);
    await put({ maxMoves: 1 });
    const adapter = rebalancePlanAdapter({ rebalancer: world.scheduler.rebalancer });
    const shown = adapter.get(cacheReader(world.records), "p1");
    expect(shown).toMatchObject({
      spec: { maxMoves: 1 },
      status: { phase: "Proposed", moveCount: 1, madeBy: "joe@pve" },
    });
    await expect(put({ maxMoves: 2 })).rejects.toThrow(/make another/);
    await put({ maxMoves: 1, approved: true });
    await world.clock.advance(5_000);
    await expect(put({ maxMoves: 1 })).rejects.toThrow(/is Done and cannot be approved or taken back/);
    await world.records.transact((tx) => {
      const found = tx.get(rebalancePlansDef, "p1")?.value;
      if (found !== undefined) tx.put(rebalancePlansDef, "p1", { ...found, phase: "Running" as const });
    });
    const remove = () =>
      world.records.transact((tx) =>
        adapter.write?.remove(tx, { name: "p1", previous: undefined, force: false, ctx }),
      );
    await expect(remove()).rejects.toThrow(/is being carried out/);
  });
});
