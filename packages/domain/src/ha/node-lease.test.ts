import { expect, test } from "vitest";
import { guestRecord } from "../guest/guest-record.ts";
import type { StorageDefinition } from "../storage/definition.ts";
import {
  evidenceCollection,
  evidenceId,
  localCollection,
  managerCollection,
  parseSid,
  sidOf,
} from "./collections.ts";
import { whyNotOn } from "./movable.ts";
import { decodeLease, leaseTimes, mayBeTaken, nextLease, takenLease } from "./node-lease.ts";
import { SaidOnce } from "./said-once.ts";
import { rulesOf, servicesOf } from "./services-view.ts";
import { haSettings } from "./settings.ts";

test("times leave room for each means before the next, and for all before the lease passes on", () => {
  const { renewMs, awayMs, stopMs, watchdogMs, leaseMs } = leaseTimes;
  expect(renewMs * 2).toBeLessThan(awayMs);
  expect(awayMs).toBeLessThan(stopMs);
  expect(stopMs).toBeLessThan(watchdogMs);
  // A watchdog is fed up to two seconds after the time that counts, and has to do its work.
  expect(watchdogMs + 2_000).toBeLessThan(leaseMs);
});

test("a lease changes hands with a higher token, and a sign of life changes nothing else", () => {
  const wish = { hold: true, mayTake: true };
  const first = nextLease("n1", undefined, wish, 5);
  expect(first).toEqual({ node: "n1", holder: "node", token: 1, beat: 1, at: 5 });
  expect(nextLease("n1", first, wish, 6)).toEqual({ ...first, beat: 2, at: 6 });
  const taken = takenLease("n1", first, 7);
  expect(taken).toEqual({ node: "n1", holder: "manager", token: 2, beat: 1, at: 7 });
  expect(nextLease("n1", taken, { hold: true, mayTake: false }, 8)).toMatchObject({
    holder: "manager",
    token: 2,
  });
  expect(nextLease("n1", taken, wish, 8)).toMatchObject({ holder: "node", token: 3 });
  expect(nextLease("n1", first, { hold: false, mayTake: true }, 8)).toMatchObject({
    holder: "nobody",
    token: 2,
  });
  expect(decodeLease(JSON.parse(JSON.stringify(first)))).toEqual(first);
  for (const wrong of [null, {}, { node: "n1", token: 1, beat: 1, holder: "me" }])
    expect(() => decodeLease(wrong)).toThrow();
});

test("is taken from a silent node only after its whole time", () => {
  const held = nextLease("n1", undefined, { hold: true, mayTake: true }, 0);
  expect(mayBeTaken(held, leaseTimes.leaseMs - 1)).toBe(false);
  expect(mayBeTaken(held, leaseTimes.leaseMs)).toBe(true);
  expect(mayBeTaken({ ...held, holder: "nobody" }, 0)).toBe(true);
  expect(mayBeTaken(undefined, 0)).toBe(true);
});

test("ids of services and of evidence", () => {
  expect(parseSid("vm:100")).toEqual({ sid: "vm:100", vmid: 100 });
  expect(parseSid("ct:101").sid).toBe("ct:101");
  for (const wrong of ["100", "", "vm:", "vm:1", "xx:100", "vm:100 ", "100:vm"])
    expect(() => parseSid(wrong), wrong).toThrow("unable to parse");
  expect(sidOf({ vmid: 5, type: "lxc" })).toBe("ct:5");
  expect(evidenceId("n1", 20, 3) < evidenceId("n1", 100, 1)).toBe(true);
});

test("records of another shape are refused", () => {
  expect(() => localCollection.decode({})).toThrow("shape");
  expect(() => managerCollection.decode(null)).toThrow("no object");
  expect(managerCollection.decode({})).toEqual({ nodes: {}, services: {}, maintenance: {} });
  expect(() => evidenceCollection.decode({ at: 1 })).toThrow("has no by");
});

test("what a node writes of itself is read as a whole", () => {
  const evidence = { at: 1, by: "n2", role: "fence", lines: [{ level: "info", text: "x" }] };
  expect(evidenceCollection.decode(evidence)).toEqual(evidence);
  for (const wrong of [
    { by: "n2" },
    { ...evidence, at: 9e15 },
    { ...evidence, at: "1" },
    { ...evidence, role: undefined },
    { ...evidence, lines: [null] },
    { ...evidence, lines: [{ level: "info" }] },
  ])
    expect(() => evidenceCollection.decode(wrong), JSON.stringify(wrong)).toThrow("n2 wrote");
  const status = { state: "active", mode: "active", guarded: true };
  const results = { a: { sid: "vm:100", exit: "success" } };
  expect(localCollection.decode(status)).toEqual({ ...status, results: {} });
  expect(localCollection.decode({ ...status, results })).toEqual({ ...status, results });
  for (const wrong of [{ state: 1 }, { results: { a: null } }, { results: { a: { sid: 1, exit: "" } } }])
    expect(() => localCollection.decode({ ...status, ...wrong }), JSON.stringify(wrong)).toThrow("shape");
});

test("says of a guest why another node cannot start it", () => {
  const storage = (name: string, options: object): StorageDefinition =>
    ({ storage: name, type: "dir", options }) as unknown as StorageDefinition;
  const storages = [
    storage("shared", { shared: true }),
    storage("some", { shared: true, nodes: "n1,n3" }),
    storage("off", { shared: true, disable: true }),
    storage("local", {}),
  ];
  const why = (conf: string) => whyNotOn({ conf }, storages, "n2");
  expect(whyNotOn(undefined, storages, "n2")).toContain("not here");
  expect(
    why("scsi0: shared:1/a.raw\nide2: none,media=cdrom\nnet0: virtio\nusb0: spice\nhostpci0: mapping=x\n"),
  ).toBe(undefined);
  expect(why("scsi0: some:1/a.raw\n")).toContain("which n2 does not have");
  expect(why("scsi0: off:1/a.raw\n")).toContain("which n2 does not have");
  expect(why("efidisk0: local:1/a.raw\n")).toContain("which is not shared");
  expect(why("scsi0: gone:1/a.raw\n")).toContain("does not exist");
  expect(why("scsi0: /dev/sda\n")).toContain("of the node it was on");
  expect(why("hostpci0: 01:00\n")).toContain("a device of the node");
  const reach = { storages: new Set(["some"]), bridges: ["vmbr0"] };
  const there = (conf: string) => whyNotOn({ conf }, storages, "n2", reach);
  expect(there("scsi0: shared:1/a.raw\n")).toContain("which is not active on n2");
  expect(there("net0: virtio=BC:24:11:00:00:01,bridge=vmbr7,tag=3\n")).toContain("net0 is on bridge vmbr7");
  expect(there("net0: virtio,bridge=vmbr0\nnet1: virtio\n")).toBe(undefined);
});

test("settings of the datacenter", () => {
  expect(haSettings({})).toEqual({
    shutdownPolicy: "conditional",
    scheduler: "basic",
    rebalanceOnStart: false,
    autoRebalance: undefined,
  });
  const crs = "ha=static,ha-rebalance-on-start=1,ha-auto-rebalance=1,ha-auto-rebalance-method=topsis";
  expect(haSettings({ ha: "shutdown_policy=migrate", crs })).toEqual({
    shutdownPolicy: "migrate",
    scheduler: "static",
    rebalanceOnStart: true,
    autoRebalance: { threshold: 0.3, margin: 0.1, holdRounds: 3, method: "topsis" },
  });
});

test("services are resources whose guest is there; groups are rules, and may keep a guest where it is", () => {
  const plain = {
    state: "started",
    maxRestart: 1,
    maxRelocate: 1,
    failback: true,
    autoRebalance: true,
  } as const;
  const resources = [
    { sid: "vm:100", group: "g", ...plain },
    { sid: "vm:101", ...plain },
    { sid: "ct:100", ...plain },
  ];
  const groups = [{ group: "g", nodes: "n1:2,n2", restricted: true, nofailback: true }];
  const guest = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" });
  const services = servicesOf(resources, (vmid) => (vmid === 100 ? guest : undefined), groups);
  expect([...services]).toEqual([
    [
      "vm:100",
      { node: "n1", state: "started", maxRestart: 1, maxRelocate: 1, failback: false, autoRebalance: true },
    ],
  ]);
  const rules = rulesOf(
    [
      {
        rule: "b",
        type: "resource-affinity",
        resources: ["vm:100", "vm:101"],
        affinity: "negative",
        order: 2,
      },
      { rule: "a", type: "node-affinity", resources: ["vm:101"], nodes: "n2", strict: true, order: 1 },
      { rule: "c", type: "node-affinity", resources: ["vm:101"], nodes: "n2", disable: true, order: 3 },
    ],
    groups,
    resources,
  );
  expect(rules.map(({ id }) => id)).toEqual(["a", "b", "ha-group-g"]);
});

test("a complaint that goes on is said once a minute, a change always", () => {
  let now = 0;
  const said = new SaidOnce({ monotonic: () => now });
  expect([
    said.isNew("error", "x"),
    said.isNew("error", "x"),
    said.isNew("info", "x"),
    said.isNew("info", "x"),
  ]).toEqual([true, false, true, true]);
  now = 60_000;
  expect(said.isNew("error", "x")).toBe(true);
});
