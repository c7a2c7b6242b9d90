// What every place of task logs does, in memory or in files.
import { expect, it } from "vitest";
import type { TaskLogSink } from "../operation/ports.ts";

export function taskLogConformance(
  open: () => {
    readonly logs: TaskLogSink;
    /** undefined = there is no such log. */
    readonly read: (id: string) => Promise<readonly string[] | undefined>;
  },
): void {
  it("keeps the lines of each task in order, and appends to what is there", async () => {
    const { logs, read } = open();
    logs.open("a").append("one");
    logs.open("b").append("other");
    await logs.open("a").flush();
    logs.open("a").append("two");
    await logs.open("a").flush();
    await logs.open("b").flush();
    expect(await read("a")).toEqual(["one", "two"]);
    expect(await read("b")).toEqual(["other"]);
  });

  it("has written all when it is closed, and goes on when somebody still talks", async () => {
    const { logs, read } = open();
    logs.open("a").append("one");
    await logs.close();
    expect(await read("a")).toEqual(["one"]);
    logs.open("a").append("two");
    await logs.open("a").finish("TASK OK");
    await logs.close();
    expect(await read("a")).toEqual(["one", "two", "TASK OK"]);
  });

  it("writes one last line, however often a task is ended", async () => {
    const { logs, read } = open();
    const log = logs.open("a");
    log.append("one");
    await log.finish("TASK OK");
    await log.finish("TASK ERROR: too late");
    await logs.open("a").finish("TASK ERROR: too late");
    expect(await read("a")).toEqual(["one", "TASK OK"]);
  });

  it("forgets what is removed, and what never was", async () => {
    const { logs, read } = open();
    logs.open("a").append("one");
    await logs.open("a").finish("TASK OK");
    await logs.remove("a");
    await logs.remove("never");
    expect(await read("a")).toBeUndefined();
  });
}
