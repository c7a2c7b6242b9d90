import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as tick } from "node:timers/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import { operationTasks, upidNamer } from "@gpve/domain/task/operation-tasks.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { PveReply } from "@gpve/domain/request/handler.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTaskHandlers } from "./task-handlers.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-tasks-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function as(authid: string, ...privileges: string[]): RequestContext {
  const has = (_path: string, wanted: readonly string[]): boolean =>
    wanted.every((one) => privileges.includes(one));
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  return {
    requestId: "r",
    actor: { userid: authid.split("!")[0] ?? "", authid },
    access: {
      privileges: () => new Map(),
      has,
      require: (path, wanted) => {
        if (!has(path, wanted))
          throw new AppError("access.denied", `Permission check failed (${path}, ${wanted.join("|")})`);
      },
    },
    signal: new AbortController().signal,
    log,
    clientAddress: "::1",
  };
}

async function setup() {
  const logger = { warn: () => {}, error: () => {} };
  const logs = new TaskLogFiles({ directory, logger });
  const { engine } = testEngine({ logs, nameOf: upidNamer("n1", () => 100) });
  engine.register({ type: "talk", steps: [{ name: "a", run: (ctx) => ctx.log("hello") }] });
  engine.register({
    type: "hang",
    steps: [
      {
        name: "a",
        run: (ctx) =>
          new Promise((_, reject) => {
            ctx.signal.addEventListener("abort", () => reject(new Error("stopped")));
          }),
      },
    ],
  });
  await engine.start();
  const handlers = createTaskHandlers({ tasks: operationTasks(engine, systemClock), logs });
  const submit = async (type: string, actor = "joe@pve") =>
    (await engine.submit({ type, resources: [type], actor, subject: "100" })).upid;
  return {
    engine,
    submit,
    list: handlers["GET /nodes/{node}/tasks"],
    status: handlers["GET /nodes/{node}/tasks/{upid}/status"],
    log: handlers["GET /nodes/{node}/tasks/{upid}/log"],
    stop: handlers["DELETE /nodes/{node}/tasks/{upid}"],
  };
}

const node = "n1";
const joe = as("joe@pve");
const unknownUpid = "UPID:n1:000000FF:00000064:00000001:talk:100:joe@pve:";

describe("status", () => {
  it("knows a task right after its dispatch, and shows its end when it has one", async () => {
    const { engine, submit, status } = await setup();
    const upid = await submit("hang", "joe@pve!ci");
    expect(status?.({ node, upid }, joe)).toEqual({
      upid,
      node: "n1",
      pid: 1,
      pstart: 100,
      starttime: expect.any(Number),
      type: "hang",
      id: "100",
      user: "joe@pve",
      tokenid: "ci",
      status: "running",
    });
    const done = await submit("talk");
    await engine.wait(done);
    expect(status?.({ node, upid: done }, joe)).toMatchObject({ status: "stopped", exitstatus: "OK" });
    expect(status?.({ node, upid: done }, joe)).not.toHaveProperty("endtime");
    await engine.stop(0);
  });

  it("refuses what is no UPID, what is unknown, and what is none of your business, in this order", async () => {
    const { engine, submit, status } = await setup();
    expect(() => status?.({ node, upid: "x" }, joe)).toThrow(
      expect.objectContaining({ errors: { upid: "unable to parse worker upid" } }),
    );
    expect(() => status?.({ node, upid: unknownUpid }, joe)).toThrow(
      expect.objectContaining({ code: "request.invalid", errors: { upid: "no such task" } }),
    );
    const upid = await submit("talk");
    expect(() => status?.({ node, upid }, as("ann@pve"))).toThrow(
      "Permission check failed (/nodes/n1, Sys.Audit)",
    );
    expect(() => status?.({ node, upid }, as("joe@pve!ci"))).toThrow("Permission check failed");
    expect(status?.({ node, upid }, as("ann@pve", "Sys.Audit"))).toMatchObject({ upid });
    await engine.stop();
  });
});

describe("list", () => {
  it("shows finished tasks with the total; others only to auditors", async () => {
    const { engine, submit, list } = await setup();
    for (const actor of ["joe@pve", "ann@pve"]) await engine.wait(await submit("talk", actor));
    await submit("hang");
    const own = list?.({ node }, joe);
    expect(own).toBeInstanceOf(PveReply);
    expect(own).toMatchObject({ total: 1, data: [{ user: "joe@pve", status: "OK" }] });
    const all = list?.({ node, source: "all" }, as("ann@pve", "Sys.Audit"));
    expect(all).toMatchObject({ total: 3, data: [{ status: "RUNNING" }, {}, {}] });
    await engine.stop(0);
  });
});

describe("log", () => {
  it("pages, says when there is nothing yet, and says so when there is no such log", async () => {
    const { engine, submit, log } = await setup();
    const upid = await submit("talk");
    await engine.wait(upid);
    expect(await log?.({ node, upid }, joe)).toMatchObject({
      data: [
        { n: 1, t: "hello" },
        { n: 2, t: "TASK OK" },
      ],
      total: 2,
    });
    expect(await log?.({ node, upid, start: 1, limit: 1 }, joe)).toMatchObject({
      data: [{ n: 2, t: "TASK OK" }],
      total: 2,
    });
    expect(await log?.({ node, upid: await submit("hang") }, joe)).toMatchObject({
      data: [{ n: 1, t: "no content" }],
      total: 1,
    });
    expect(await log?.({ node, upid: unknownUpid }, joe)).toMatchObject({
      data: [{ n: 1, t: "unable to open file - No such file or directory" }],
    });
    await expect(log?.({ node, upid }, as("ann@pve"))).rejects.toThrow("Permission check failed");
    await engine.stop(0);
  });

  it("downloads the whole as text", async () => {
    const { engine, submit, log } = await setup();
    const upid = await submit("talk");
    await engine.wait(upid);
    const reply = await log?.({ node, upid, download: true }, joe);
    if (!(reply instanceof PveReply)) throw new Error("no reply");
    expect(reply.download?.fileName).toMatch(/^task-n1-talk-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.log$/);
    const chunks: Uint8Array[] = [];
    for await (const chunk of reply.download?.body ?? []) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("hello\nTASK OK\n");
    await expect(log?.({ node, upid, download: true, limit: 5 }, joe)).rejects.toThrow(
      "'download' cannot be used together with 'start' or 'limit' parameters",
    );
    await expect(log?.({ node, upid: unknownUpid, download: true }, joe)).rejects.toMatchObject({
      pveStatus: 500,
    });
    await engine.stop();
  });
});

describe("stop", () => {
  it("ends a running task; an ended one is no error; others' tasks need Sys.Modify", async () => {
    const { engine, submit, stop, status } = await setup();
    const upid = await submit("hang");
    await tick();
    await expect(stop?.({ node, upid }, as("ann@pve", "Sys.Audit"))).rejects.toThrow(
      "Permission check failed (/nodes/n1, Sys.Modify)",
    );
    expect(await stop?.({ node, upid }, as("ann@pve", "Sys.Modify"))).toBeNull();
    expect(status?.({ node, upid }, joe)).toMatchObject({
      status: "stopped",
      exitstatus: "received interrupt",
    });
    expect(await stop?.({ node, upid }, joe)).toBeNull();
    await expect(stop?.({ node, upid: unknownUpid }, joe)).rejects.toMatchObject({
      errors: { upid: "no such task" },
    });
    await engine.stop();
  });
});
