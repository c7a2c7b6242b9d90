import type { PhaseStep } from "../phase/vm-phases.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import {
  disownedEndEvents,
  loginFailedEvent,
  nodeHealthEvent,
  recordFailedLogin,
  recordHappenings,
  taskEndEvent,
  taskEnds,
} from "./event-sources.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { EventRecorder, eventCollection } from "./events.ts";
import type { EventInput } from "./events.ts";

const event = (message: string, more: Partial<EventInput> = {}): EventInput => ({
  type: "Warning",
  reason: "Test",
  object: { kind: "Node", name: "n1" },
  message,
  ...more,
});

describe("the event recorder", () => {
  let records: Records;
  let clock: FakeClock;
  let ids: number;
  const errors: string[] = [];
  const log = { error: (_fields: unknown, message: string) => void errors.push(message) };
  beforeEach(() => {
    records = new MemoryRecords();
    clock = new FakeClock();
    ids = 0;
  });
  afterEach(() => {
    errors.length = 0;
  });
  const open = (options = {}) =>
    new EventRecorder({ records, clock, log, newId: () => String(++ids).padStart(26, "0") }, options);
  const all = () =>
    records
      .collection(eventCollection)
      .list()
      .map((entry) => entry.value);

  it("writes soon and together, and counts alike events instead of repeating them", async () => {
    const recorder = open();
    for (let i = 0; i < 5; i++) recorder.recordEvent(event("same"));
    recorder.recordEvent(event("other", { node: "n1" }));
    expect(all()).toEqual([]);
    await clock.advance(600);
    expect(all()).toMatchObject([
      { message: "same", count: 5 },
      { message: "other", count: 1 },
    ]);
    await clock.advance(60_000);
    recorder.recordEvent(event("same"));
    await clock.advance(600);
    expect(all()).toHaveLength(2);
    expect(all()[0]).toMatchObject({ count: 6 });
    await clock.advance(11 * 60_000);
    recorder.recordEvent(event("same"));
    await clock.advance(600);
    expect(all()).toHaveLength(3);
  });

  it("drops the oldest beyond its bound", async () => {
    const recorder = open({ maxEvents: 3 });
    for (let i = 0; i < 8; i++) {
      recorder.recordEvent(event(`m${i}`));
      await clock.advance(600);
    }
    expect(all().map((one) => one.message)).toEqual(["m5", "m6", "m7"]);
  });

  it("cuts long messages, bounds what waits, and keeps it while the store is away", async () => {
    const recorder = open();
    let away = true;
    const transact = records.transact.bind(records);
    records.transact = (change, options) =>
      away ? Promise.reject(new AppError("store.unavailable", "gone")) : transact(change, options);
    for (let i = 0; i < 1_500; i++) recorder.recordEvent(event(`${i} ${"x".repeat(3000)}`));
    await clock.advance(600);
    expect(errors).toEqual(["events could not be written"]);
    away = false;
    await recorder.flush();
    expect(all()).toHaveLength(1_000);
    expect(all()[0]?.message).toHaveLength(1_024);
  });

  it("writes what several servers see only once", async () => {
    const task = {
      upid: "UPID:x",
      node: "n1",
      pid: 1,
      pstart: 1,
      starttime: 1,
      type: "qmstart",
      id: "1",
      authid: "a@pve",
      endtime: 9,
      exitstatus: "no",
    };
    const nodes: ((view: NodeView, previous: NodeView | undefined) => void)[] = [];
    const tasks: ((ended: typeof task) => void)[] = [];
    const steps: ((step: PhaseStep) => void)[] = [];
    const servers = [open(), open()];
    const stops = servers.map(({ recordEvent }) =>
      recordHappenings({
        tenantOfVm: () => undefined,
        onNodeChange: (listener) => (nodes.push(listener), () => void nodes.splice(0)),
        onTaskEnd: (listener) => (tasks.push(listener), () => void tasks.splice(0)),
        onPhaseStep: (listener) => (steps.push(listener), () => void steps.splice(0)),
        clusterOf: () => undefined,
        now: () => clock.now(),
        recordEvent,
      }),
    );
    const view = (health: NodeView["health"]) => ({ node: "n1", health }) as NodeView;
    for (const tell of nodes) tell(view("offline"), view("online"));
    for (const tell of nodes) tell(view("offline"), view("offline"));
    for (const tell of tasks) tell(task);
    for (const tell of tasks) tell({ ...task, exitstatus: "OK" });
    const step = { vmid: "100", node: "n1", from: "Stopping", to: "Stopped", last: undefined } as const;
    const ownEnd = { vmid: 100, at: 5_000, isCrash: true, why: "killed, signal 9" };
    for (const tell of steps) tell({ ...step, ownEnd });
    for (const tell of steps) tell({ ...step, from: "Stopped", to: "Starting", ownEnd: undefined });
    await clock.advance(600);
    expect(
      all()
        .map(({ reason, count }) => `${reason} ${count}`)
        .toSorted(),
    ).toEqual(["NodeOffline 1", "TaskFailed 1", "VMCrashed 1"]);
    expect(
      records
        .collection(eventCollection)
        .list()
        .every(({ id }) => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(id)),
    ).toBe(true);
    for (const stop of stops) stop();
    expect([...nodes, ...tasks]).toEqual([]);
  });

  it("refuses records that are none", () => {
    expect(() => eventCollection.decode({})).toThrow();
    expect(() => eventCollection.decode(null)).toThrow();
  });
});

describe("happenings", () => {
  const view = (health: NodeView["health"]) => ({ node: "n1", health }) as NodeView;

  it("of nodes are told when health changes", () => {
    expect(nodeHealthEvent(view("online"), undefined)).toBeUndefined();
    expect(nodeHealthEvent(view("online"), view("online"))).toBeUndefined();
    expect(nodeHealthEvent(view("online"), view("offline"))).toMatchObject({
      type: "Normal",
      reason: "NodeOnline",
    });
    expect(nodeHealthEvent(view("offline"), view("online"))).toMatchObject({
      type: "Warning",
      reason: "NodeOffline",
      node: "n1",
    });
    expect(nodeHealthEvent(view("unknown"), view("online"))?.reason).toBe("NodeUnknown");
  });

  it("of guests that a node ended because another has them are told once", () => {
    const ended = (...ends: object[]) => ({ node: "n1", report: { ends } }) as unknown as NodeView;
    const own = { vmid: 100, at: 5, isCrash: false, why: "stopped" };
    const foreign = { ...own, vmid: 101, owner: "n2" };
    const view = ended(own, foreign);
    expect(disownedEndEvents(view, undefined)).toEqual([
      {
        event: expect.objectContaining({ reason: "VMEndedNotOwned", node: "n1", type: "Warning" }),
        once: { at: 5, text: "101 n1 not owned" },
      },
    ]);
    expect(disownedEndEvents(ended(own, foreign), ended(own))).toHaveLength(1);
    expect(disownedEndEvents(ended(own, foreign), view)).toEqual([]);
    expect(disownedEndEvents(view, view)).toEqual([]);
    expect(disownedEndEvents({ node: "n1" } as NodeView, view)).toEqual([]);
  });

  it("of tasks are told when they did not end well", () => {
    const task = {
      upid: "UPID:x",
      node: "n1",
      pid: 1,
      pstart: 1,
      starttime: 1,
      type: "qmstart",
      id: "100",
      authid: "a@pve",
    };
    expect(taskEndEvent(task)).toBeUndefined();
    expect(taskEndEvent({ ...task, exitstatus: "OK" })).toBeUndefined();
    expect(taskEndEvent({ ...task, exitstatus: "WARNINGS: 2" })?.reason).toBe("TaskWarnings");
    expect(taskEndEvent({ ...task, id: "", exitstatus: "boom" })).toMatchObject({
      reason: "TaskFailed",
      message: "qmstart: boom",
    });
  });

  it("of logins carry no line breaks of the client's making", () => {
    expect(loginFailedEvent("a\nb", "10.0.0.1").message).toBe('a login as "a\\nb" from 10.0.0.1 failed');
  });
});

describe("what servers listen to", () => {
  it("is the end of each task, once, whoever wrote its record", async () => {
    const records = new MemoryRecords();
    const heard: unknown[] = [];
    const stop = taskEnds(records.collection(taskRecords))(({ upid, exitstatus }) =>
      heard.push([upid, exitstatus]),
    );
    const upid = "UPID:n1:00000001:00000001:00000001:qmstart:100:root@pam:";
    const put = (more: object) =>
      records.transact((tx) => tx.put(taskRecords, `n1/${upid}`, { upid, ...more }));
    await put({});
    await put({ endtime: 9, exitstatus: "OK" });
    await put({ endtime: 9, exitstatus: "OK" });
    await records.transact((tx) => tx.delete(taskRecords, `n1/${upid}`));
    expect(heard).toEqual([[upid, "OK"]]);
    stop();
  });

  it("is a login that failed, and no other request", () => {
    const reasons: string[] = [];
    const tell = (audited: Parameters<typeof recordFailedLogin>[0]) =>
      recordFailedLogin(audited, ({ reason }) => reasons.push(reason));
    const request = { resource: "/access/ticket", statusCode: 401, user: "a@pve", sourceIP: "::1" };
    tell(undefined);
    tell({ ...request, statusCode: 200 });
    tell({ ...request, resource: "/access/users" });
    expect(reasons).toEqual([]);
    tell(request);
    expect(reasons).toHaveLength(1);
  });
});
