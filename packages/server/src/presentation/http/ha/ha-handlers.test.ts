import { afterEach, beforeEach, expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import {
  commandCollection,
  localCollection,
  localId,
  managerCollection,
  MANAGER_STATUS_ID,
  resourceCollection,
} from "@gpve/domain/ha/collections.ts";
import {
  emptyManagerStatus,
  type LocalStatus,
  type ManagerStatus,
  type ServiceStatus,
  type WantedState,
} from "@gpve/domain/ha/model.ts";
import { HaWorld } from "../../../testing/ha-world.ts";
import { createHaHandlers } from "./ha-handlers.ts";

const ctx = { actor: { authid: "root@pam" } } as unknown as RequestContext;
let world: HaWorld;
let call: (key: string, params?: object) => Promise<unknown>;

beforeEach(async () => {
  world = new HaWorld();
  const handlers = createHaHandlers(world) as unknown as Record<
    string,
    (params: object, ctx: RequestContext) => unknown
  >;
  call = async (key, params = {}) => handlers[key]?.(params, ctx);
  await world.guest(100, "n2");
  await world.guest(101, "n2");
  await world.guest(102, "n3");
});
afterEach(() => world.close());

const lines = () =>
  world.records
    .collection(commandCollection)
    .list()
    .map(({ value }) => value.line);

test("resources are added, shown, changed and removed, by bare number too", async () => {
  expect(
    await call("POST /cluster/ha/resources", { sid: "100", state: "enabled", comment: "web" }),
  ).toBeNull();
  await expect(call("POST /cluster/ha/resources", { sid: "vm:100" })).rejects.toThrow(
    "create resource failed: resource ID 'vm:100' already defined",
  );
  await expect(call("POST /cluster/ha/resources", { sid: "ct:101" })).rejects.toThrow(
    "guest 101 is 'vm:101'",
  );
  await expect(call("POST /cluster/ha/resources", { sid: "999" })).rejects.toThrow(
    "unable do detect SID from VMID - VM/CT 999 does not exist",
  );
  await expect(call("POST /cluster/ha/resources", { sid: "vm:999" })).rejects.toThrow(
    "resource 'vm:999' does not exists in cluster",
  );
  await expect(call("POST /cluster/ha/resources", { sid: "101", type: "ct" })).rejects.toThrow(
    "types does not match",
  );
  await expect(call("POST /cluster/ha/resources", { sid: "x" })).rejects.toThrow(
    "unable to parse resource id",
  );
  const shown = (await call("GET /cluster/ha/resources/{sid}", { sid: "100" })) as Record<string, unknown>;
  expect(shown).toEqual({
    sid: "vm:100",
    type: "vm",
    state: "started",
    max_restart: 1,
    max_relocate: 1,
    failback: 1,
    "auto-rebalance": 1,
    comment: "web",
    digest: expect.stringMatching(/^[0-9a-f]{40}$/) as unknown,
  });
  const { digest } = shown;
  await call("PUT /cluster/ha/resources/{sid}", {
    sid: "100",
    state: "stopped",
    max_restart: 3,
    failback: false,
    delete: "comment",
    digest,
  });
  expect(await call("GET /cluster/ha/resources", { type: "vm" })).toMatchObject([
    { sid: "vm:100", state: "stopped", max_restart: 3, failback: 0 },
  ]);
  expect(await call("GET /cluster/ha/resources", { type: "ct" })).toEqual([]);
  await expect(call("PUT /cluster/ha/resources/{sid}", { sid: "100", digest })).rejects.toThrow(
    "detected modified configuration",
  );
  await expect(call("PUT /cluster/ha/resources/{sid}", { sid: "101" })).rejects.toThrow(
    "update resources config failed: no such resource 'vm:101'",
  );
  for (const key of ["sid", "nodes"])
    await expect(call("PUT /cluster/ha/resources/{sid}", { sid: "100", delete: key })).rejects.toThrow(
      `no such option '${key}'`,
    );
  await expect(call("GET /cluster/ha/resources/{sid}", { sid: "ct:999" })).rejects.toThrow("'ct:999'");
  await call("DELETE /cluster/ha/resources/{sid}", { sid: "vm:100" });
  await expect(call("DELETE /cluster/ha/resources/{sid}", { sid: "vm:100" })).rejects.toThrow(
    "not HA managed",
  );
});

test("what a request deletes is gone, though it sets it as well", async () => {
  await call("POST /cluster/ha/groups", { group: "g", nodes: "n1" });
  await call("POST /cluster/ha/resources", { sid: "100", group: "g", comment: "web", max_restart: 2 });
  const both = { group: "g", comment: "d", max_restart: 5, max_relocate: 4 };
  await call("PUT /cluster/ha/resources/{sid}", {
    sid: "100",
    ...both,
    delete: "group,comment,max_restart",
  });
  const shown = await call("GET /cluster/ha/resources/{sid}", { sid: "100" });
  expect(shown).toMatchObject({ max_restart: 1, max_relocate: 4 });
  for (const key of ["group", "comment"]) expect(shown).not.toHaveProperty(key);
  await call("PUT /cluster/ha/groups/{group}", {
    group: "g",
    comment: "d",
    restricted: true,
    nodes: "n2",
    delete: "comment,restricted",
  });
  const group = await call("GET /cluster/ha/groups/{group}", { group: "g" });
  expect(group).toMatchObject({ nodes: "n2", restricted: 0 });
  expect(group).not.toHaveProperty("comment");
});

test("a number alone is the guest that has it, also where that is a container", async () => {
  await world.records.transact((tx) =>
    tx.put(guestCollection, "200", guestRecord({ vmid: 200, type: "lxc", node: "n1", conf: "memory: 64\n" })),
  );
  await call("POST /cluster/ha/resources", { sid: "200" });
  expect(await call("GET /cluster/ha/resources/{sid}", { sid: "200" })).toMatchObject({
    sid: "ct:200",
    type: "ct",
  });
  await call("PUT /cluster/ha/resources/{sid}", { sid: "200", comment: "c" });
  await call("POST /cluster/ha/rules", {
    rule: "home",
    type: "node-affinity",
    resources: "ct:200",
    nodes: "n1",
  });
  expect(await call("GET /cluster/ha/rules", { resource: "200" })).toHaveLength(1);
  expect(await call("POST /cluster/ha/resources/{sid}/relocate", { sid: "200", node: "n2" })).toMatchObject({
    sid: "ct:200",
  });
  await call("DELETE /cluster/ha/resources/{sid}", { sid: "200" });
  expect(await call("GET /cluster/ha/resources")).toEqual([]);
  await expect(call("GET /cluster/ha/resources/{sid}", { sid: "999" })).rejects.toThrow(
    "unable do detect SID from VMID - VM/CT 999 does not exist",
  );
});

test("templates are no resources", async () => {
  const conf = "template: 1\n";
  await world.records.transact((tx) =>
    tx.put(guestCollection, "105", guestRecord({ vmid: 105, type: "qemu", node: "n1", conf })),
  );
  await expect(call("POST /cluster/ha/resources", { sid: "105" })).rejects.toThrow("it is a template");
});

test("rules are refused where they contradict others, and forget resources that are removed", async () => {
  for (const sid of ["100", "101", "102"]) await call("POST /cluster/ha/resources", { sid });
  const add = (params: object) => call("POST /cluster/ha/rules", params);
  await add({ rule: "apart", type: "resource-affinity", affinity: "negative", resources: "vm:100,101" });
  await expect(
    add({ rule: "apart", type: "resource-affinity", affinity: "negative", resources: "vm:100,101" }),
  ).rejects.toThrow("already defined");
  const errorOf = async (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (err: unknown) => {
        const { message, pveStatus } = err as { message: string; pveStatus: number };
        return `${pveStatus} ${message}`;
      },
    );
  const contradiction = {
    rule: "both",
    type: "resource-affinity",
    affinity: "positive",
    resources: "vm:100,vm:101",
  };
  const onceMore = { ...contradiction, rule: "x" };
  const home = { rule: "x", type: "node-affinity", resources: "vm:100" };
  expect(await errorOf(add(contradiction))).toBe(
    "500 create ha rule failed: 400 Rule 'both' is invalid.\nresources: rule shares two or more resources with a negative resource affinity rule",
  );
  expect(await errorOf(add({ ...onceMore, affinity: "negative", resources: "vm:100,vm:100" }))).toContain(
    "resources: rule is ineffective as there are less than two resources",
  );
  expect(await errorOf(add({ ...contradiction, disable: true }))).toBeUndefined();
  expect(await errorOf(add({ ...onceMore, resources: "vm:104,vm:100,vm:103" }))).toBe(
    "500 create ha rule failed: cannot use unmanaged resource(s) vm:103, vm:104.",
  );
  expect(await errorOf(add(home))).toBe("500 missing value for required option 'nodes'");
  expect(await errorOf(add({ ...home, nodes: "n9,n1,n8:3" }))).toBe(
    "500 create ha rule failed: cannot use non-existant node(s) n8, n9.",
  );
  expect(await errorOf(add({ ...onceMore, strict: true }))).toBe("500 unexpected property 'strict'");
  expect(await errorOf(add({ ...onceMore, nodes: "n1" }))).toBe("500 unexpected property 'nodes'");
  expect(await errorOf(add({ ...home, nodes: "n1", affinity: "negative" }))).toBe(
    "500 unexpected property 'affinity'",
  );
  await add({ rule: "home", type: "node-affinity", resources: "vm:102", nodes: "n1:2,n3", strict: true });
  expect(await call("GET /cluster/ha/rules", { resource: "102" })).toMatchObject([
    { rule: "home", type: "node-affinity", resources: "vm:102", nodes: "n1:2,n3", strict: 1 },
  ]);
  expect(await call("GET /cluster/ha/rules", { type: "resource-affinity" })).toHaveLength(2);
  const { digest } = (await call("GET /cluster/ha/rules/{rule}", { rule: "home" })) as { digest: string };
  const change = { rule: "home", type: "node-affinity", nodes: "n3", delete: "strict", comment: "c", digest };
  await call("PUT /cluster/ha/rules/{rule}", change);
  expect(await call("GET /cluster/ha/rules/{rule}", { rule: "home" })).toMatchObject({
    nodes: "n3",
    comment: "c",
  });
  await expect(call("PUT /cluster/ha/rules/{rule}", change)).rejects.toThrow(
    "detected modified configuration",
  );
  await expect(
    call("PUT /cluster/ha/rules/{rule}", { rule: "home", type: "resource-affinity" }),
  ).rejects.toThrow("cannot change type");
  const set = (params: object) => errorOf(call("PUT /cluster/ha/rules/{rule}", params));
  expect(await set({ rule: "z", type: "node-affinity" })).toBe(
    "500 update HA rules failed: HA rule 'z' does not exist",
  );
  const unset = (key: string, more: object = {}) =>
    set({ rule: "home", type: "node-affinity", delete: key, ...more });
  expect(await unset("nodes")).toBe("500 update HA rules failed: unable to delete required option 'nodes'");
  expect(await unset("affinity")).toBe("500 update HA rules failed: no such option 'affinity'");
  expect(await unset("comment", { comment: "d" })).toBe(
    "500 update HA rules failed: cannot set and delete property 'comment' at the same time!",
  );
  await call("DELETE /cluster/ha/resources/{sid}", { sid: "102" });
  await expect(call("GET /cluster/ha/rules/{rule}", { rule: "home" })).rejects.toThrow("no such ha rule");
  expect(await call("GET /cluster/ha/rules/{rule}", { rule: "apart" })).not.toHaveProperty("errors");
  await call("DELETE /cluster/ha/resources/{sid}", { sid: "101" });
  const left = { resources: "vm:100", errors: { resources: [expect.stringContaining("less than two")] } };
  expect(await call("GET /cluster/ha/rules/{rule}", { rule: "apart" })).toMatchObject(left);
  expect(await call("GET /cluster/ha/rules", { resource: "vm:100" })).toMatchObject([left, {}]);
  await call("DELETE /cluster/ha/rules/{rule}", { rule: "apart" });
  expect(await call("DELETE /cluster/ha/rules/{rule}", { rule: "apart" })).toBeNull();
});

test("groups, as older clients know them", async () => {
  await call("POST /cluster/ha/groups", { group: "g", nodes: "n1,n2:2", restricted: true });
  await expect(call("POST /cluster/ha/groups", { group: "g", nodes: "n1" })).rejects.toThrow(
    "create ha group failed: ha group ID 'g' already defined",
  );
  await expect(call("PUT /cluster/ha/groups/{group}", { group: "g", delete: "nodes" })).rejects.toThrow(
    "update ha group failed: unable to delete required option 'nodes'",
  );
  await call("PUT /cluster/ha/groups/{group}", { group: "g", nofailback: true, delete: "restricted" });
  expect(await call("GET /cluster/ha/groups/{group}", { group: "g" })).toMatchObject({
    group: "g",
    type: "group",
    nodes: "n1,n2:2",
    restricted: 0,
    nofailback: 1,
  });
  await call("PUT /cluster/ha/groups/{group}", { group: "g", comment: "c" });
  await call("PUT /cluster/ha/groups/{group}", { group: "g", delete: "comment" });
  expect(await call("GET /cluster/ha/groups/{group}", { group: "g" })).not.toHaveProperty("comment");
  await call("POST /cluster/ha/resources", { sid: "100", group: "g" });
  await expect(call("POST /cluster/ha/resources", { sid: "101", group: "h" })).rejects.toThrow();
  await expect(call("DELETE /cluster/ha/groups/{group}", { group: "g" })).rejects.toThrow(
    "used by service 'vm:100'",
  );
  world.serve("n1");
  await world.pass(8);
  // It belongs to n2 above all, and stays where it is.
  expect(world.service("vm:100")).toMatchObject({ node: "n2", state: "started" });
  await call("PUT /cluster/ha/resources/{sid}", { sid: "100", delete: "group" });
  await call("DELETE /cluster/ha/groups/{group}", { group: "g" });
  expect(await call("DELETE /cluster/ha/groups/{group}", { group: "g" })).toBeNull();
  expect(await call("GET /cluster/ha/groups")).toEqual([]);
  await expect(call("GET /cluster/ha/groups/{group}", { group: "g" })).rejects.toThrow(
    "no such ha group 'g'",
  );
  await expect(call("PUT /cluster/ha/groups/{group}", { group: "g" })).rejects.toThrow("no such ha group");
});

test("a rule that leaves those who must be apart too few nodes is refused, and says whom and which", async () => {
  for (const sid of ["100", "101", "102"]) await call("POST /cluster/ha/resources", { sid });
  const add = (params: object) => call("POST /cluster/ha/rules", params);
  const home = (rule: string, resources: string, nodes: string) =>
    add({ rule, type: "node-affinity", resources, nodes, strict: true });
  await add({ rule: "three", type: "resource-affinity", affinity: "negative", resources: "100,101,102" });
  await home("c", "102", "n2,n3");
  await home("a", "100", "n1");
  await expect(home("b", "101", "n1")).rejects.toThrow(
    "Rule 'b' is invalid.\nresources: vm:100, vm:101 must be apart, and rules that are strict leave them n1",
  );
  await home("b", "101", "n1,n2");
});

test("moves are told to the manager, with who goes along, unless a rule keeps them", async () => {
  for (const sid of ["100", "101", "102"]) await call("POST /cluster/ha/resources", { sid });
  const add = (params: object) => call("POST /cluster/ha/rules", params);
  await add({ rule: "pair", type: "resource-affinity", affinity: "positive", resources: "100,101" });
  world.serve("n1");
  await world.pass(6);
  expect(await call("POST /cluster/ha/resources/{sid}/migrate", { sid: "100", node: "n1" })).toEqual({
    sid: "vm:100",
    "requested-node": "n1",
    "comigrated-resources": ["vm:101"],
  });
  expect(lines()).toEqual(["migrate vm:100 n1"]);
  await add({ rule: "never", type: "resource-affinity", affinity: "negative", resources: "100,102" });
  expect(await call("POST /cluster/ha/resources/{sid}/relocate", { sid: "100", node: "n3" })).toMatchObject({
    "blocking-resources": [{ sid: "vm:102", cause: "resource-affinity" }],
  });
  // Also one that is off, as the manager has it.
  await call("PUT /cluster/ha/resources/{sid}", { sid: "102", state: "stopped" });
  await world.pass(4);
  expect(world.service("vm:102")).toMatchObject({ state: "stopped", node: "n3" });
  expect(await call("POST /cluster/ha/resources/{sid}/relocate", { sid: "100", node: "n3" })).toHaveProperty(
    "blocking-resources",
  );
  await expect(
    call("POST /cluster/ha/resources/{sid}/relocate", { sid: "100", node: "n9" }),
  ).rejects.toThrow();
  expect(lines()).toEqual([]);
});

test("a move that could only come to nothing is refused with the reason, and so is maintenance of who is not there", async () => {
  await call("POST /cluster/ha/resources", { sid: "100" });
  world.serve("n1");
  await world.pass(6);
  const refusal = async (node: string) => {
    for (const kind of ["migrate", "relocate"]) {
      const answer = call(`POST /cluster/ha/resources/{sid}/${kind}`, { sid: "100", node });
      await expect(answer).rejects.toThrow();
      if (kind === "relocate") return answer.catch((err: unknown) => (err as Error).message);
    }
    return "";
  };
  for (const kind of ["migrate", "relocate"])
    expect(await call(`POST /cluster/ha/resources/{sid}/${kind}`, { sid: "100", node: "n2" })).toEqual({
      sid: "vm:100",
      "requested-node": "n2",
    });
  expect(lines()).toEqual([]);
  await world.config.maintenance("n3", true, "root@pam");
  await world.pass(4);
  expect(await refusal("n3")).toContain("node 'n3' is in maintenance and takes no guests under HA");
  await world.config.maintenance("n3", false, "root@pam");
  world.alive.delete("n1");
  expect(await refusal("n1")).toBe("cannot move 'vm:100': node 'n1' is not online");
  await expect(world.config.maintenance("n1", true, "root@pam")).rejects.toThrow("node 'n1' is not online");
  await expect(world.config.maintenance("n9", true, "root@pam")).rejects.toMatchObject({
    code: "object.not_found",
  });
  // Its end may be asked for at any time.
  await world.config.maintenance("n1", false, "root@pam");
  expect(lines()).toEqual(["disable-node-maintenance n3", "disable-node-maintenance n1"]);
});

test("a move is refused where its node would refuse it: as it runs by migrate, and as it is stopped by relocate", async () => {
  await world.guest(100, "n2", "net0: virtio,bridge=vmbr7\nlock: backup\n");
  world.bridgesOf = (node) => (node === "n2" ? ["vmbr7"] : ["vmbr0"]);
  await call("POST /cluster/ha/resources", { sid: "100" });
  const move = (kind: string) => call(`POST /cluster/ha/resources/{sid}/${kind}`, { sid: "100", node: "n1" });
  await expect(move("migrate")).rejects.toThrow("VM is locked (backup)");
  await world.guest(100, "n2", "net0: virtio,bridge=vmbr7\n");
  await expect(move("migrate")).rejects.toThrow("net0: node 'n1' has no bridge 'vmbr7'");
  expect(lines()).toEqual([]);
  await move("relocate");
  expect(lines()).toEqual(["relocate vm:100 n1"]);
  world.withoutShared.add("n1");
  await expect(move("relocate")).rejects.toThrow("storage 'shared' is not active on node 'n1'");
  expect(lines()).toHaveLength(1);
});

test("what failed wants to be disabled before anything else is asked of it", async () => {
  for (const sid of ["100", "101"]) await call("POST /cluster/ha/resources", { sid });
  const status = {
    ...emptyManagerStatus(),
    services: { "vm:100": { state: "error", node: "n2", uid: "x" } as ServiceStatus },
  };
  await world.records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
  const text = "service 'vm:100' in error state, must be disabled and fixed first";
  const one = { sid: "100" };
  await expect(call("PUT /cluster/ha/resources/{sid}", { ...one, state: "started" })).rejects.toThrow(text);
  for (const kind of ["migrate", "relocate"])
    await expect(call(`POST /cluster/ha/resources/{sid}/${kind}`, { ...one, node: "n1" })).rejects.toThrow(
      text,
    );
  await call("PUT /cluster/ha/resources/{sid}", { ...one, state: "disabled" });
  await call("PUT /cluster/ha/resources/{sid}", { sid: "101", state: "ignored" });
  for (const sid of ["101", "102"])
    await expect(call("POST /cluster/ha/resources/{sid}/migrate", { sid, node: "n1" })).rejects.toThrow(
      `resource 'vm:${sid}' is not HA managed`,
    );
});

test("status shows quorum, manager, nodes and services, and how it is disarmed and armed", async () => {
  expect(await call("GET /cluster/ha/status/current")).toEqual([
    { id: "quorum", type: "quorum", node: "n1", status: "OK", quorate: 1 },
  ]);
  expect(await call("GET /cluster/ha/status/manager_status")).toMatchObject({ manager_status: {} });
  await call("POST /cluster/ha/resources", { sid: "100" });
  await call("POST /cluster/ha/resources", { sid: "101", state: "ignored" });
  world.serve("n1");
  await world.pass(6);
  const rows = async () => (await call("GET /cluster/ha/status/current")) as { id: string; status: string }[];
  const status = async (id: string) => (await rows()).find((row) => row.id === id)?.status;
  expect(await status("master")).toMatch(/^n1 \(active, /);
  expect(await status("lrm:n2")).toMatch(/^n2 \(active, /);
  expect(await status("lrm:n3")).toMatch(/^n3 \(idle, /);
  expect(await status("service:vm:100")).toBe("vm:100 (n2, started)");
  expect(await status("service:vm:101")).toBe("vm:101 (n2, ignored)");
  expect(await status("fencing")).toBe("armed");
  expect(await call("GET /cluster/ha/status/manager_status")).toMatchObject({
    manager_status: { master_node: "n1", service_status: { "vm:100": { state: "started", node: "n2" } } },
    lrm_status: { n2: { state: "active", mode: "active" } },
    quorum: { quorate: 1 },
  });
  await call("POST /cluster/ha/status/disarm-ha", { "resource-mode": "freeze" });
  await world.pass(5);
  expect(await status("fencing")).toBe("disarmed");
  expect(await status("service:vm:100")).toBe("vm:100 (n2, freeze)");
  await call("POST /cluster/ha/status/arm-ha");
  await world.pass(5);
  expect(await status("fencing")).toBe("armed");
  world.alive.clear();
  await world.clock.advance(60_000);
  expect(await status("lrm:n2")).toContain("old timestamp - dead?");
});

test("status says at once what is on its way, and shows what the manager still knows", async () => {
  for (const sid of ["100", "101", "102"])
    await call("POST /cluster/ha/resources", { sid, comment: `c${sid}` });
  const stored = async (services: object, wanted: object = {}): Promise<readonly string[]> => {
    await world.records.transact((tx) => {
      tx.put(managerCollection, MANAGER_STATUS_ID, { ...emptyManagerStatus(), services } as ManagerStatus);
      for (const [sid, state] of Object.entries(wanted))
        tx.put(resourceCollection, sid, { ...world.config.resource(sid), state: state as WantedState });
    });
    const rows = (await call("GET /cluster/ha/status/current")) as { type: string; status: string }[];
    return rows.filter(({ type }) => type === "service").map(({ status }) => status);
  };
  const at = (state: string) => ({ state, node: "n2", uid: "u" });
  expect(
    await stored(
      { "vm:100": at("started"), "vm:101": at("stopped"), "vm:999": at("started") },
      { "vm:100": "stopped", "vm:101": "started" },
    ),
  ).toEqual([
    "vm:100 (n2, stopping)",
    "vm:101 (n2, starting)",
    "vm:999 (n2, deleting)",
    "vm:102 (n3, queued)",
  ]);
  expect(
    await stored(
      { "vm:100": at("stopped"), "vm:101": at("error"), "vm:102": at("migrate") },
      { "vm:100": "disabled", "vm:101": "disabled" },
    ),
  ).toEqual(["vm:100 (n2, disabled)", "vm:101 (n2, clearing error flag)", "vm:102 (n2, migrate)"]);
  await world.records.transact((tx) => tx.delete(guestCollection, "102"));
  const rows = (await call("GET /cluster/ha/status/current")) as { sid?: string }[];
  expect(rows.find(({ sid }) => sid === "vm:102")).toMatchObject({ state: "not found", comment: "c102" });
});

test("status of nodes says what they wait for, and in which mode they are", async () => {
  const shown = async (report: object | undefined, state = "started"): Promise<string | undefined> => {
    await world.records.transact((tx) => {
      const services = { "vm:100": { state, node: "n2", uid: "u" } };
      const status = { ...emptyManagerStatus(), nodes: { n2: "online" }, services } as ManagerStatus;
      tx.put(managerCollection, MANAGER_STATUS_ID, status);
      const plain = { state: "active", mode: "active", guarded: true, results: {} };
      if (report !== undefined)
        tx.put(localCollection, localId("n2"), { ...plain, ...report } as LocalStatus);
    });
    const rows = (await call("GET /cluster/ha/status/current")) as { id: string; status: string }[];
    return /\(([^,)]*)/.exec(rows.find(({ id }) => id === "lrm:n2")?.status ?? "")?.[1];
  };
  expect(await shown(undefined)).toBe("unable to read lrm status");
  expect(await shown({})).toBe("active");
  expect(await shown({ state: "wait_for_agent_lock" })).toBe("wait_for_agent_lock");
  for (const state of ["stopped", "freeze", "error"])
    expect(await shown({ state: "wait_for_agent_lock" }, state)).toBe("idle");
  expect(await shown({ mode: "shutdown" })).toBe("shutdown mode");
  expect(await shown({ mode: "restart" })).toBe("restart mode");
  expect(await shown({ state: "maintenance", mode: "maintenance" })).toBe("maintenance mode");
});

test("of two who change what they both saw, one is told to look again", async () => {
  await world.guest(100, "n1");
  await call("POST /cluster/ha/resources", { sid: "vm:100" });
  const outcomes = async (
    method: string,
    shown: unknown,
    ...changes: readonly object[]
  ): Promise<string[]> => {
    const { digest } = shown as { readonly digest: string };
    const all = await Promise.allSettled(changes.map((change) => call(method, { ...change, digest })));
    return all.map(({ status }) => status).toSorted();
  };
  const one = ["fulfilled", "rejected"];
  const sid = { sid: "vm:100" };
  const resource = await call("GET /cluster/ha/resources/{sid}", sid);
  const states = ["stopped", "disabled"].map((state) => ({ ...sid, state }));
  expect(await outcomes("PUT /cluster/ha/resources/{sid}", resource, ...states)).toEqual(one);
  const home = { rule: "home", type: "node-affinity" };
  await call("POST /cluster/ha/rules", { ...home, resources: "vm:100", nodes: "n1" });
  const rule = await call("GET /cluster/ha/rules/{rule}", { rule: "home" });
  const homes = ["n2", "n3"].map((nodes) => ({ ...home, nodes }));
  expect(await outcomes("PUT /cluster/ha/rules/{rule}", rule, ...homes)).toEqual(one);
});
