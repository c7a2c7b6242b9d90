import { describe, expect, it } from "vitest";
import { joinDirectories, operationTasks, upidNamer } from "./operation-tasks.ts";
import type { OperationFacts, OperationSource } from "./operation-tasks.ts";
import type { TaskChange, TaskRecord } from "./task-record.ts";
import { TaskOutbox } from "./task-outbox.ts";

const name = upidNamer("n1", () => 12.7);
const upid = (sequence: number): string =>
  name({ sequence, type: "qmstart", subject: "100", actor: "joe@pve!ci", createdAt: 5_999 });

const noSleep = { sleep: (): Promise<void> => Promise.resolve() };
const forever = (): Promise<never> => new Promise(() => {});

function source(operations: readonly OperationFacts[], cancelled: string[] = []): OperationSource {
  return {
    get: (id) => operations.find((operation) => operation.id === id),
    list: () => operations,
    cancel: (id, by) => {
      cancelled.push(`${id} ${by}`);
      return Promise.resolve(operations.find((operation) => operation.id === id)?.endedAt === undefined);
    },
    wait: forever,
  };
}

describe("operations as tasks", () => {
  it("names them by UPID", () => {
    expect(upid(10)).toBe("UPID:n1:0000000A:0000000C:00000005:qmstart:100:joe@pve!ci:");
  });

  it("shows ends in seconds, and running ones without an end", () => {
    const tasks = operationTasks(
      source([{ id: upid(1), endedAt: 7_900, exitStatus: "OK" }, { id: upid(2) }, { id: "no upid" }]),
      noSleep,
    );
    expect([...tasks.list()].map(({ pid, endtime, exitstatus }) => ({ pid, endtime, exitstatus }))).toEqual([
      { pid: 1, endtime: 7, exitstatus: "OK" },
      { pid: 2, endtime: undefined, exitstatus: undefined },
    ]);
    expect(tasks.get(upid(2))?.authid).toBe("joe@pve!ci");
    expect(tasks.get(upid(3))).toBeUndefined();
    const lost = operationTasks(source([{ id: upid(1), endedAt: 1 }]), noSleep);
    expect(lost.get(upid(1))?.exitstatus).toBe("unexpected status");
  });

  it("a stop does not wait forever, nor for what has ended", async () => {
    const cancelled: string[] = [];
    const operations = [{ id: upid(1) }, { id: upid(2), endedAt: 1 }];
    await operationTasks(source(operations, cancelled), noSleep).stop(upid(1), "ann@pve");
    await operationTasks(source(operations, cancelled), { sleep: forever }).stop(upid(2), "ann@pve");
    const quick = { ...source(operations), wait: () => Promise.reject(new Error("gone")) };
    await operationTasks(quick, { sleep: forever }).stop(upid(1), "ann@pve");
    expect(cancelled).toEqual([`${upid(1)} ann@pve`, `${upid(2)} ann@pve`]);
  });

  it("joins the engines of one node", async () => {
    const cancelled: string[] = [];
    const joined = joinDirectories([
      operationTasks(source([{ id: upid(1) }]), noSleep),
      operationTasks(source([{ id: upid(2) }], cancelled), noSleep),
    ]);
    expect([...joined.list()].map(({ pid }) => pid)).toEqual([1, 2]);
    expect(joined.get(upid(2))?.pid).toBe(2);
    expect(joined.get(upid(3))).toBeUndefined();
    await joined.stop(upid(2), "x");
    await joined.stop(upid(3), "x");
    expect(cancelled).toHaveLength(1);
  });
});

describe("TaskOutbox", () => {
  function outbox(over: { fail?: number; published?: TaskRecord[] } = {}) {
    const batches: (readonly TaskChange[])[] = [];
    const failures: number[] = [];
    let left = over.fail ?? 0;
    const box = new TaskOutbox({
      publisher: {
        apply: async (changes) => {
          await Promise.resolve();
          left -= 1;
          if (left >= 0) throw new Error("away");
          batches.push(changes);
        },
        published: () => Promise.resolve(over.published ?? []),
      },
      clock: noSleep,
      onFailure: (_error, waiting) => failures.push(waiting),
    });
    return {
      box,
      batches,
      failures,
      told: () => batches.flat().map(({ upid: id, task }) => [id, task?.exitstatus]),
    };
  }

  it("tells of the beginning and the end, in batches", async () => {
    const { box, batches, told } = outbox();
    for (let n = 1; n <= 120; n++) box.hear({ kind: "accepted", operation: { id: upid(n) } });
    box.hear({ kind: "progress", operation: { id: upid(1) } });
    box.hear({ kind: "accepted", operation: { id: "no upid" } });
    await box.settled();
    expect(batches.map((batch) => batch.length).every((size) => size <= 50)).toBe(true);
    expect(told()).toHaveLength(120);
    box.hear({ kind: "ended", operation: { id: upid(1), endedAt: 1, exitStatus: "OK" } });
    box.hear({ kind: "removed", operation: { id: upid(2), endedAt: 1, exitStatus: "OK" } });
    await box.settled();
    expect(told().slice(120)).toEqual([
      [upid(1), "OK"],
      [upid(2), undefined],
    ]);
  });

  it("tries until it succeeds, complains once, and tells only the newest", async () => {
    const { box, told, failures } = outbox({ fail: 3 });
    box.hear({ kind: "accepted", operation: { id: upid(1) } });
    box.hear({ kind: "ended", operation: { id: upid(1), endedAt: 1, exitStatus: "OK" } });
    await box.settled();
    expect(told()).toEqual([[upid(1), "OK"]]);
    expect(failures).toEqual([1]);
  });

  it("does not lose a change that comes while another is on its way", async () => {
    const { box, told } = outbox();
    box.hear({ kind: "accepted", operation: { id: upid(1) } });
    await Promise.resolve();
    box.hear({ kind: "ended", operation: { id: upid(1), endedAt: 1, exitStatus: "OK" } });
    await box.settled();
    expect(told().at(-1)).toEqual([upid(1), "OK"]);
  });

  it("reconciles after a start, leaving alone what is not ours and what is known already", async () => {
    const end = { endtime: 1, exitstatus: "OK" };
    const published = [{ upid: upid(1) }, { upid: upid(2) }, { upid: upid(3), ...end }, { upid: upid(900) }];
    const { box, told } = outbox({ published: [...published, { upid: "junk" }] });
    const ended = { endedAt: 1_000, exitStatus: "OK" };
    const operations = [{ id: upid(2), ...ended }, { id: upid(3), ...ended }, { id: upid(4) }];
    await box.reconcile(
      "n1",
      () => operations,
      ({ pid }) => pid < 500,
    );
    await box.settled();
    expect(told()).toEqual([
      [upid(2), "OK"],
      [upid(4), undefined],
      [upid(1), undefined],
    ]);
    await box.close();
    await box.reconcile(
      "n1",
      () => operations,
      () => true,
    );
    expect(told()).toHaveLength(3);
  });

  it("closes with what it has not told", async () => {
    const { box, told } = outbox({ fail: Number.POSITIVE_INFINITY });
    box.hear({ kind: "accepted", operation: { id: upid(1) } });
    await box.close();
    expect(told()).toEqual([]);
  });
});
