import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const JOB = {
  id: "100-0",
  guest: 100,
  jobnum: 0,
  type: "local",
  source: "n1",
  target: "n2",
  schedule: "*/5",
};

async function world(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, name: "web", node: "n1" }])
    .pve("GET /cluster/replication", [JOB])
    .pve("POST /cluster/replication", null)
    .pve("DELETE /cluster/replication/100-0", null)
    .pve("POST /nodes/n1/replication/100-0/schedule_now", null)
    .pve("GET /nodes/n1/replication/100-0/log", [{ n: 1, t: "start replication" }])
    .pve("GET /nodes/n1/replication", [
      { ...JOB, last_sync: 1_767_323_045, next_sync: 1_767_323_345, fail_count: 1, error: "n2 is away" },
    ]);
  return ctl;
}

test("jobs are listed with when they last ran and what stood against it", async () => {
  await using ctl = await world();
  expect((await ctl.run(["replication", "list"])).out).toMatch(
    /^100-0 +n1 +n2 +\*\/5 +2026-01-02 03:04:05Z +2026-01-02 03:09:05Z +1 +n2 is away$/m,
  );
  ctl.api.pve("GET /nodes/n1/replication", [{ ...JOB, last_sync: 0, fail_count: 0 }]);
  expect((await ctl.run(["replication", "list"])).out).not.toContain("1970");
  ctl.api.pve("GET /cluster/replication", []);
  expect((await ctl.run(["replication", "list"])).out).toBe("");
});

test("a job gets the first number that is free, by the VM's name", async () => {
  await using ctl = await world();
  const { code, out } = await ctl.run([
    "replication",
    "add",
    "web",
    "n3",
    "--schedule",
    "hourly",
    "--rate",
    "5",
  ]);
  expect([code, out]).toEqual([0, expect.stringContaining("Job 100-1 keeps a copy of VM 100 on n3.")]);
  expect(Object.fromEntries(ctl.api.last("POST /api2/json/cluster/replication").form)).toEqual({
    id: "100-1",
    type: "local",
    target: "n3",
    schedule: "hourly",
    rate: "5",
  });
});

test("a job is run, its log is shown, and it is removed, with its copy or without", async () => {
  await using ctl = await world();
  expect((await ctl.run(["replication", "run", "100-0"])).code).toBe(0);
  expect(ctl.api.last("POST /api2/json/nodes/n1/replication/100-0/schedule_now")).toBeDefined();
  expect((await ctl.run(["replication", "log", "100-0"])).out).toBe("start replication\n");
  expect((await ctl.run(["replication", "remove", "100-0", "--keep"])).out).toContain("its copy stays");
  const { query, form } = ctl.api.last("DELETE /api2/json/cluster/replication/100-0");
  expect({ ...Object.fromEntries(query), ...Object.fromEntries(form) }).toEqual({ keep: "1" });
  expect((await ctl.run(["replication", "remove", "100-0", "--force"])).out).toContain("is forgotten");
  const gone = await ctl.run(["replication", "run", "100-7"]);
  expect([gone.code, gone.err]).toEqual([5, expect.stringContaining("there is no replication job 100-7")]);
  ctl.api.pve("GET /nodes/n1/replication/100-0/log", []);
  expect((await ctl.run(["replication", "log", "100-0"])).err).toContain("has not run yet");
});
