import { given } from "@gpve/contracts/given.ts";
import { expect, test } from "vitest";
import { Gpvectl, NOW } from "../../testing/run-gpvectl.ts";

const upid = "UPID:n1:00000001:00000000:65000000:qmstart:100:root@pam:";
const seconds = NOW / 1000;
const rows = [
  { upid, node: "n1", type: "qmstart", id: "100", user: "root@pam", starttime: seconds - 5 },
  {
    upid: "UPID:n1:2:",
    node: "n1",
    type: "qmstop",
    id: "101",
    user: "joe@pve",
    starttime: seconds - 90,
    endtime: seconds - 60,
    status: "VM quit/powerdown failed",
  },
  {
    upid: "UPID:n1:3:",
    node: "n1",
    type: "qmstart",
    id: "",
    user: "joe@pve",
    starttime: seconds - 100,
    endtime: seconds - 99,
    status: "OK",
  },
];

test("task list shows recent tasks of all nodes", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /cluster/tasks", rows);
  const ran = await ctl.run(["task", "list"]);
  expect(ran).toEqual({
    code: 0,
    err: "",
    out: [
      "STARTED               NODE  TYPE     ID   USER      TIME  STATUS                    UPID",
      `2026-01-02 03:04:00Z  n1    qmstart  100  root@pam    5s  running                   ${upid}`,
      "2026-01-02 03:02:35Z  n1    qmstop   101  joe@pve    30s  VM quit/powerdown failed  UPID:n1:2:",
      "2026-01-02 03:02:25Z  n1    qmstart  -    joe@pve     1s  OK                        UPID:n1:3:",
      "",
    ].join("\n"),
  });
});

test("task list filters by state, user, type and count", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /cluster/tasks", rows).pve("GET /nodes/n1/tasks", rows);
  const ids = async (...flags: string[]): Promise<unknown[]> => {
    const ran = await ctl.run(["task", "list", "-o", "json", ...flags]);
    return (JSON.parse(ran.out) as { id: string }[]).map((row) => row.id);
  };
  expect(await ids("--running")).toEqual(["100"]);
  expect(await ids("--errors")).toEqual(["101"]);
  expect(await ids("--user", "joe@pve", "--type", "qmstart")).toEqual([""]);
  expect(await ids("-n", "1")).toEqual(["100"]);
  await ids("--node", "n1", "--running", "--user", "joe@pve");
  expect(ctl.api.last("GET /api2/json/nodes/n1/tasks").query.toString()).toBe(
    "limit=50&source=active&userfilter=joe%40pve",
  );
});

test("an empty list says so on standard error and prints an empty list as JSON", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /cluster/tasks", []);
  expect(await ctl.run(["task", "list"])).toEqual({ code: 0, out: "", err: "No tasks.\n" });
  expect(await ctl.run(["task", "list", "-o", "json"])).toEqual({ code: 0, out: "[]\n", err: "" });
  expect(await ctl.run(["task", "list", "-q"])).toEqual({ code: 0, out: "", err: "" });
});

test("--watch prints again when something changed, until Ctrl-C", async () => {
  await using ctl = await Gpvectl.create();
  const abort = new AbortController();
  const states = [["a"], ["a"], ["a", "b"]];
  ctl.api.on("GET /api2/json/pools", () => {
    const pools = states.shift() ?? [];
    if (states.length === 0) abort.abort();
    return { body: { data: pools.map((poolid) => ({ poolid })) } };
  });
  const ran = await ctl.run(["pool", "list", "--watch", "--interval", "1s"], { signal: abort.signal });
  expect(ran.code).toBe(130);
  expect(ran.out).toBe("POOL  COMMENT\na     -\n\nPOOL  COMMENT\na     -\nb     -\n");
});

test("--watch as JSON prints one line per change; on a terminal it redraws", async () => {
  await using ctl = await Gpvectl.create();
  const watchOnce = async (argv: readonly string[], terminal?: number): Promise<string> => {
    const abort = new AbortController();
    ctl.api.on("GET /api2/json/pools", () => {
      abort.abort();
      return { body: { data: [{ poolid: "a" }] } };
    });
    const options = { signal: abort.signal, ...given({ terminal }) };
    return (await ctl.run(argv, options)).out;
  };
  expect(await watchOnce(["pool", "list", "-w", "-o", "json"])).toBe('[{"poolid":"a"}]\n');
  expect(await watchOnce(["pool", "list", "-w"], 80)).toBe(
    "\u001b[H\u001b[J\u001b[1mPOOL\u001b[22m  \u001b[1mCOMMENT\u001b[22m\na     -\n",
  );
});

test("task show prints the facts", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve(`GET /nodes/n1/tasks/${upid}/status`, {
    upid,
    node: "n1",
    type: "qmstart",
    user: "root@pam",
    starttime: seconds,
    status: "stopped",
    exitstatus: "OK",
  });
  expect((await ctl.run(["task", "show", upid])).out).toBe(
    [
      `UPID:         ${upid}`,
      "Node:         n1",
      "Type:         qmstart",
      "User:         root@pam",
      "Started:      2026-01-02 03:04:05Z",
      "Status:       stopped",
      "Exit status:  OK",
      "",
    ].join("\n"),
  );
});

test("task follow streams the log and ends with the task's outcome", async () => {
  await using ctl = await Gpvectl.create();
  const base = `/nodes/n1/tasks/${upid}`;
  ctl.api.pve(`GET ${base}/status`, { status: "stopped", exitstatus: "OK" });
  ctl.api.on(`GET /api2/json${base}/log`, (request) => {
    const lines = [
      { n: 1, t: "starting \u001b[31m" },
      { n: 2, t: "TASK OK" },
    ];
    return { body: { data: lines.slice(Number(request.query.get("start"))), total: 2 } };
  });
  expect(await ctl.run(["task", "follow", upid])).toEqual({
    code: 0,
    out: "starting \\x1b[31m\nTASK OK\n",
    err: "",
  });
  ctl.api.pve(`GET ${base}/status`, { status: "stopped", exitstatus: "it broke" });
  const failed = await ctl.run(["task", "follow", upid, "-o", "json"]);
  expect(failed.code).toBe(1);
  expect(JSON.parse(failed.out)).toEqual({ upid, exitstatus: "it broke", ok: false });
});

test("task cancel asks, and waits when told to", async () => {
  await using ctl = await Gpvectl.create();
  const base = `/nodes/n1/tasks/${upid}`;
  ctl.api
    .pve(`DELETE ${base}`, null)
    .pve(`GET ${base}/status`, { status: "stopped", exitstatus: "interrupted" });
  expect((await ctl.run(["task", "cancel", upid])).out).toBe(`Asked ${upid} to stop.\n`);
  expect((await ctl.run(["task", "cancel", upid, "--wait"])).out).toBe(`${upid} has ended: interrupted\n`);
});

test("what is no UPID is refused before anything is sent", async () => {
  await using ctl = await Gpvectl.create();
  expect(await ctl.run(["task", "show", "x"])).toEqual({
    code: 2,
    out: "",
    err: 'gpvectl: cannot show task x on https://fake:8006: "x" is not a UPID (upid: unable to parse worker upid). See: gpvectl task show --help.\n',
  });
  expect(ctl.api.requests).toEqual([]);
});
