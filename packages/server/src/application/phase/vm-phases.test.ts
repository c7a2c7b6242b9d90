import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestEnd, NodeView } from "@gpve/domain/node/runtime.ts";
import { formatUpid } from "@gpve/domain/task/upid.ts";
import { taskRecordId } from "@gpve/domain/task/task-record.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, it } from "vitest";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { LifeWorks } from "./life-works.ts";
import { lifeStepEvent } from "./phase-events.ts";
import { VmPhases, type PhaseStep } from "./vm-phases.ts";

async function setUp() {
  const clock = new FakeClock();
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: { error: () => undefined },
  });
  const listeners: ((view: NodeView) => void)[] = [];
  let pid = 0;
  const phases = (): VmPhases =>
    new VmPhases({
      guests: records.collection(guestCollection),
      works: new LifeWorks(records.collection(taskRecords)),
      board: { list: () => [], onChange: (listener) => (listeners.push(listener), () => undefined) },
      clock,
    });
  const followed = phases();
  const steps: PhaseStep[] = [];
  followed.onStep((step) => steps.push(step));
  return {
    clock,
    phases: followed,
    restarted: phases,
    /** The phases that were come to since the last call. */
    seen: (): string =>
      steps
        .splice(0)
        .map(({ to }) => to)
        .join(" "),
    events: (): string[] => steps.splice(0).flatMap((step) => lifeStepEvent(step)?.message ?? []),
    define: (vmid = 100, node = "n1") =>
      records.transact((tx) =>
        tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf: "cores: 1\n" })),
      ),
    remove: () => records.transact((tx) => tx.delete(guestCollection, "100")),
    task: async (type: string, exitstatus?: string) => {
      const at = Math.floor(clock.now() / 1000);
      const upid = formatUpid({
        node: "n1",
        pid: ++pid,
        pstart: 1,
        starttime: at,
        type,
        id: "100",
        user: "joe@pve",
      });
      const put = (record: object) =>
        records.transact((tx) => tx.put(taskRecords, taskRecordId(upid) ?? "", { upid, ...record }));
      if (exitstatus === undefined) await put({});
      return {
        end: (status: string) => put({ endtime: Math.floor(clock.now() / 1000), exitstatus: status }),
      };
    },
    report: (running: readonly number[], ends: readonly GuestEnd[] = [], startedAt?: number, node = "n1") => {
      const guests = running.map((vmid) => ({ vmid, type: "qemu", status: "running", extra: { startedAt } }));
      const view = { node, report: { at: clock.now(), guests, ends } } as unknown as NodeView;
      for (const listener of listeners) listener(view);
    },
  };
}

it("goes through a whole life in the order of the table, whatever is seen of it", async () => {
  const vm = await setUp();
  vm.report([]);
  await vm.define();
  expect(vm.seen()).toBe("Creating Stopped");
  const start = await vm.task("qmstart");
  expect(vm.seen()).toBe("Starting");
  await start.end("OK");
  // The node has not reported since: its task is the newer truth.
  expect(vm.seen()).toBe("Running");
  await vm.clock.advance(3_000);
  vm.report([100]);
  expect(vm.seen()).toBe("");

  // Work that is told of only when it has ended.
  await (await vm.task("qmsnapshot", "never told")).end("OK");
  expect(vm.seen()).toBe("Snapshotting Running");
  await (await vm.task("qmpause")).end("OK");
  expect(vm.seen()).toBe("Paused");
  await (await vm.task("qmsnapshot")).end("OK");
  expect(vm.phases.of("100").phase).toBe("Paused");
  await (await vm.task("qmresume")).end("OK");
  vm.seen();
  expect(vm.phases.of("100").phase).toBe("Running");

  await vm.clock.advance(3_000);
  const end = { vmid: 100, at: vm.clock.now(), isCrash: true, why: "crashed, signal 11" };
  vm.report([], [end]);
  expect(vm.events()).toEqual(["VM 100 has crashed: crashed, signal 11"]);
  expect(vm.phases.of("100").phase).toBe("Stopped");

  await vm.clock.advance(3_000);
  await (await vm.task("qmstart")).end("command 'qemu' failed");
  expect(vm.phases.of("100").phase).toBe("Failed");
  expect(vm.events()).toEqual(["VM 100 failed: qmstart command 'qemu' failed"]);
  await (await vm.task("reset-state")).end("OK");
  expect(vm.seen()).toBe("Stopped");
  await vm.task("qmdestroy");
  expect(vm.seen()).toBe("Deleting");
  await vm.remove();
  expect(vm.phases.of("100").phase).toBe("Unknown");
});

it("moves to another node without having stopped, whoever reports first", async () => {
  const vm = await setUp();
  vm.report([100]);
  vm.report([], [], undefined, "n2");
  await vm.define();
  vm.seen();
  const move = await vm.task("qmigrate");
  expect(vm.seen()).toBe("Migrating");
  // Its record is the other node's, which has not told of it yet.
  await vm.define(100, "n2");
  vm.report([]);
  expect(vm.phases.of("100").phase).toBe("Migrating");
  await move.end("OK");
  vm.report([], [], undefined, "n2");
  expect(vm.events()).toEqual(["VM 100 has moved (qmigrate by joe@pve)"]);
  await vm.clock.advance(3_000);
  vm.report([100], [], undefined, "n2");
  expect(vm.phases.of("100").phase).toBe("Running");
  await vm.clock.advance(3_000);
  vm.report([], [], undefined, "n2");
  expect(vm.phases.of("100").phase).toBe("Stopped");
});

it("of one that is off, a move or snapshot that fails leaves it as it was", async () => {
  const vm = await setUp();
  vm.report([]);
  await vm.define();
  vm.seen();
  for (const type of ["qmigrate", "qmsnapshot"]) {
    await (await vm.task(type)).end("no room");
    await vm.clock.advance(3_000);
    vm.report([]);
  }
  expect(vm.seen()).toBe("");
});

it("says of work that failed that it was not done", async () => {
  const vm = await setUp();
  vm.report([100]);
  await vm.define();
  vm.seen();
  await (await vm.task("qmreboot")).end("VM quit/powerdown failed - got timeout");
  await (await vm.task("qmsnapshot")).end("no room");
  await (await vm.task("qmigrate")).end("the target is gone");
  expect(vm.events()).toEqual([
    "VM 100 was not started anew and goes on (qmreboot by joe@pve): VM quit/powerdown failed - got timeout",
    "VM 100 was not saved and goes on (qmsnapshot by joe@pve): no room",
    "VM 100 has not moved and goes on (qmigrate by joe@pve): the target is gone",
  ]);
});

it("tells an asked stop from one that nobody asked for", async () => {
  const vm = await setUp();
  vm.report([100]);
  await vm.define();
  vm.seen();
  const stop = await vm.task("qmstop");
  const end = { vmid: 100, at: vm.clock.now(), isCrash: false, why: "stopped" };
  vm.report([], [end]);
  await stop.end("OK");
  expect(vm.events()).toEqual(["VM 100 has stopped (qmstop by joe@pve)"]);
});

it("is the same for a server that begins later, without telling it all again", async () => {
  const vm = await setUp();
  await vm.define();
  await (await vm.task("qmstart")).end("no disk");
  vm.report([]);
  const later = vm.restarted();
  expect(later.of("100").phase).toBe("Unknown");
  const steps: PhaseStep[] = [];
  later.onStep((step) => steps.push(step));
  await vm.clock.advance(3_000);
  vm.report([]);
  expect(later.of("100").phase).toBe("Failed");
  expect(steps.map(({ to }) => to)).toEqual(["Failed"]);
  expect(steps.flatMap((step) => lifeStepEvent(step) ?? [])).toEqual([]);
});

it("knows after a restart since when a guest runs, or when it ended", async () => {
  const vm = await setUp();
  await vm.define(100);
  await vm.define(101);
  const startedAt = vm.clock.now() - 3_600_000;
  await vm.clock.advance(500_000);
  const after = vm.restarted();
  vm.report([100], [{ vmid: 101, at: startedAt + 60_000, isCrash: false, why: "" }], startedAt);
  expect(after.of("100")).toMatchObject({ phase: "Running", since: startedAt });
  expect(after.of("101")).toMatchObject({ phase: "Stopped", since: startedAt + 60_000 });
  after.close();
});
