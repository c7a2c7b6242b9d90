import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const resource = "/cluster/ha/resources/vm:100";
const formOf = (ctl: Gpvectl, route: string): Record<string, string> => {
  const [verb, path] = route.split(" ");
  const { form, query } = ctl.api.last(`${verb} /api2/json${path}`);
  return { ...Object.fromEntries(query), ...Object.fromEntries(form) };
};

test("guests come under HA, change and leave it", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api
    .pve("POST /cluster/ha/resources", null)
    .pve(`PUT ${resource}`, null)
    .pve(`DELETE ${resource}`, null);
  expect((await ctl.run(["ha", "add", "vm:100", "--max-restart", "3", "--failback", "no"])).code).toBe(0);
  expect(formOf(ctl, "POST /cluster/ha/resources")).toEqual({
    sid: "vm:100",
    max_restart: "3",
    failback: "0",
  });
  await ctl.run(["ha", "set", "vm:100", "--state", "stopped", "--failback", "yes"]);
  expect(formOf(ctl, `PUT ${resource}`)).toEqual({ state: "stopped", failback: "1" });
  const nothing = await ctl.run(["ha", "set", "vm:100"]);
  expect(nothing.code).toBe(2);
  expect(nothing.err).toContain("nothing to change; give one of --state, --max-restart");
  expect((await ctl.run(["ha", "remove", "vm:100"])).code).toBe(0);
});

test("guests are named by what they are called, too, where that is one", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/resources", [
      { type: "lxc", vmid: 101, name: "web" },
      { type: "qemu", vmid: 102, name: "twin" },
      { type: "qemu", vmid: 103, name: "twin" },
    ])
    .pve("DELETE /cluster/ha/resources/ct:101", null)
    .on("GET /api/v1/ha/evidence", { body: { entries: [] } });
  expect((await ctl.run(["ha", "remove", "web"])).out).toContain("ct:101 is not under HA any more");
  expect((await ctl.run(["ha", "remove", "twin"])).err).toContain("several guests are called twin: 102, 103");
  expect((await ctl.run(["ha", "remove", "none"])).err).toContain("there is no guest none");
  for (const [about, asked] of [
    ["web", "ct:101"],
    ["n2", "n2"],
    ["109", "vm:109"],
  ] as const) {
    await ctl.run(["ha", "explain", about]);
    expect(ctl.api.last("GET /api/v1/ha/evidence").query.get("about")).toBe(asked);
  }
});

test("who puts a guest under HA hears what of it only its node has", async () => {
  await using ctl = await Gpvectl.create();
  const migrate = (local_disks: readonly object[]) =>
    ctl.api.pve("GET /nodes/n1/qemu/100/migrate", { local_disks, local_resources: [] });
  const add = async () => {
    const { code, err } = await ctl.run(["ha", "add", "100"]);
    expect(code).toBe(0);
    return err;
  };
  ctl.api
    .pve("POST /cluster/ha/resources", null)
    .pve("GET /cluster/resources", [{ type: "qemu", vmid: 100, node: "n1" }]);
  expect(await add()).not.toContain("Should n1 be lost");
  const disk = { drivename: "scsi0", volid: "local:100/disk.qcow2", is_attached: true };
  migrate([disk, { drivename: "unused0", volid: "local:100/old.qcow2", is_attached: false }]);
  expect(await add()).toContain(
    "Should n1 be lost, vm:100 waits for it: only n1 has scsi0 (local:100/disk.qcow2). HA starts elsewhere",
  );
  migrate([]);
  expect(await add()).not.toContain("Should n1 be lost");
});

test("a move that a rule keeps from happening says which, and fails", async () => {
  await using ctl = await Gpvectl.create();
  const along = ["vm:101"];
  ctl.api.pve(`POST ${resource}/migrate`, { sid: "vm:100", "comigrated-resources": along });
  ctl.api.pve(`POST ${resource}/relocate`, {
    "blocking-resources": [{ sid: "vm:102", cause: "resource-affinity" }],
  });
  const moved = await ctl.run(["ha", "migrate", "vm:100", "n2"]);
  expect(moved.code).toBe(0);
  expect(moved.out + moved.err).toContain("and with it vm:101");
  const kept = await ctl.run(["ha", "relocate", "vm:100", "n3"]);
  expect(kept.code).toBe(1);
  expect(kept.out).toContain("vm:100 cannot go to n3: resource-affinity of vm:102");
});

test("rules are listed, added and removed", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api
    .pve("GET /cluster/ha/rules", [
      { rule: "home", type: "node-affinity", resources: "vm:100", nodes: "n1" },
      { rule: "odd", type: "resource-affinity", resources: "vm:9", errors: { resources: ["too few"] } },
    ])
    .pve("POST /cluster/ha/rules", null)
    .pve("DELETE /cluster/ha/rules/home", null);
  const { out } = await ctl.run(["ha", "rules"]);
  expect(out).toMatch(/^home +node-affinity +vm:100 +n1/m);
  expect(out).toMatch(/^odd .* too few$/m);
  ctl.api.pve("GET /cluster/resources", [
    { type: "qemu", vmid: 100 },
    { type: "lxc", vmid: 101 },
  ]);
  await ctl.run(["ha", "rule-add", "home", "vm:100", "101", "--nodes", "n1:2,n2", "--strict"]);
  expect(formOf(ctl, "POST /cluster/ha/rules")).toEqual({
    rule: "home",
    type: "node-affinity",
    resources: "vm:100,ct:101",
    nodes: "n1:2,n2",
    strict: "1",
  });
  await ctl.run(["ha", "rule-add", "apart", "100", "101", "--apart"]);
  expect(formOf(ctl, "POST /cluster/ha/rules")).toEqual({
    rule: "apart",
    type: "resource-affinity",
    resources: "vm:100,ct:101",
    affinity: "negative",
  });
  expect((await ctl.run(["ha", "rule-remove", "home"])).code).toBe(0);
});

test("a rule that says nothing, or two things, is refused", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /cluster/resources", [{ type: "qemu", vmid: 100 }]);
  const refusal = async (...argv: readonly string[]) => {
    const { code, err } = await ctl.run(["ha", "rule-add", "r", ...argv]);
    return `${code} ${err}`;
  };
  const which = "say one of --nodes, --together and --apart";
  expect(await refusal("vm:100", "vm:101")).toContain(which);
  expect(await refusal("vm:100", "vm:101", "--apart", "--together")).toContain(which);
  expect(await refusal("vm:100", "--nodes", "n1", "--apart")).toContain(which);
  expect(await refusal("vm:100", "vm:101", "--apart", "--strict")).toContain("--strict goes with --nodes");
  expect(await refusal("vm:100", "--apart")).toContain("name more than one guest");
  const gone = await refusal("100", "109", "--apart");
  expect(gone).toMatch(/^5 /);
  expect(gone).toContain("there is no guest 109");
});

test("status, reasons, maintenance and disarming", async () => {
  await using ctl = await Gpvectl.create();
  const lines = [{ at: 1_794_885_469_508, by: "n1", role: "manager", level: "info", text: "got lock 'x'" }];
  ctl.api
    .pve("GET /cluster/resources", [{ type: "lxc", vmid: 100 }])
    .pve("GET /cluster/ha/status/current", [{ type: "service", status: "vm:100 (n1, started)" }])
    .pve("POST /cluster/ha/status/arm-ha", null)
    .pve("POST /cluster/ha/status/disarm-ha", null)
    .on("GET /api/v1/ha/evidence", { body: { entries: lines } })
    .on("POST /api/v1/ha/nodes/n2/maintenance", { body: { command: "x" } });
  expect((await ctl.run(["ha", "status"])).out).toContain("vm:100 (n1, started)");
  expect((await ctl.run(["ha", "explain", "100"])).out).toContain("got lock 'x'");
  expect(ctl.api.last("GET /api/v1/ha/evidence").query.get("about")).toBe("ct:100");
  await ctl.run(["ha", "explain"]);
  expect(ctl.api.last("GET /api/v1/ha/evidence").query.get("about")).toBeNull();
  ctl.api.pve("GET /cluster/resources", [
    { type: "qemu", vmid: 100, name: "kept", node: "n2", status: "running", hastate: "started" },
    { type: "qemu", vmid: 101, name: "plain", node: "n2", status: "running" },
    { type: "qemu", vmid: 102, name: "off", node: "n2", status: "stopped" },
    { type: "qemu", vmid: 103, name: "far", node: "n1", status: "running" },
  ]);
  const maintained = await ctl.run(["ha", "maintenance", "on", "n2"]);
  expect(maintained.err).toContain("left there: 101 (plain). Move them too: gpvectl node drain n2");
  expect(JSON.parse(ctl.api.last("POST /api/v1/ha/nodes/n2/maintenance").body)).toEqual({ enabled: true });
  await ctl.run(["ha", "maintenance", "off", "n2"]);
  await ctl.run(["ha", "disarm", "--ignore"]);
  expect(formOf(ctl, "POST /cluster/ha/status/disarm-ha")).toEqual({ "resource-mode": "ignore" });
  expect((await ctl.run(["ha", "arm"])).code).toBe(0);
});
