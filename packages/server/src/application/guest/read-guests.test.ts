import { nodeCalls } from "../../testing/node-calls.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { createGuestReadHandlers } from "../../presentation/http/guest/guest-read-handlers.ts";
import { ReadGuests } from "./read-guests.ts";

const conf = [
  "cores: 2",
  "memory: 2048",
  "name: web",
  "onboot: 1",
  "scsi0: local:100/vm-100-disk-0.qcow2,size=32G",
  "",
  "[PENDING]",
  "delete: onboot",
  "memory: 4096",
  "",
  "[snap1]",
  "memory: 512",
  "snaptime: 1700000000",
  "",
].join("\n");

let records: Awaited<ReturnType<typeof openRecords>>;
let guests: ReadGuests;
beforeEach(async () => {
  const store = openSqliteStore({ path: ":memory:" });
  records = await openRecords(store, { prefix: "/gpve/", log: silentLogger });
  const board = { list: () => [], get: () => undefined, generation: () => 1 };
  guests = new ReadGuests({ guests: records.collection(guestCollection), board, permissions: () => 1 });
  await records.transact((tx) => {
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf }));
    tx.put(
      guestCollection,
      "101",
      guestRecord({
        vmid: 101,
        type: "qemu",
        node: "n2",
        conf: "template: 1\nserial0: socket\nballoon: 64\n",
      }),
    );
  });
});
afterEach(() => records.close());

test("merges pending changes into the configuration and keeps the bytes", () => {
  const json = guests.configJson("n1", 100);
  expect(JSON.parse(json.toString())).toMatchObject({
    cores: 2,
    memory: "4096",
    name: "web",
    digest: expect.stringMatching(/^[0-9a-f]{40}$/),
  });
  expect(JSON.parse(json.toString())).not.toHaveProperty("onboot");
  expect(guests.configJson("n1", 100)).toBe(json);
});

test("shows the active configuration, a snapshot, and what is pending", () => {
  expect(guests.configView("n1", 100, {})).toMatchObject({ memory: "2048", onboot: 1 });
  expect(guests.configView("n1", 100, { snapshot: "snap1" })).toMatchObject({ memory: "512" });
  expect(() => guests.configView("n1", 100, { snapshot: "nope" })).toThrow("snapshot 'nope' does not exist");
  // Numbers where GET config has numbers: strict clients read the rows as that configuration.
  expect(guests.pending("n1", 100)).toEqual([
    { key: "cores", value: 2 },
    { key: "memory", value: "2048", pending: "4096" },
    { key: "name", value: "web" },
    { key: "onboot", value: 1, delete: 1 },
    { key: "scsi0", value: "local:100/vm-100-disk-0.qcow2,size=32G" },
    { key: "digest", value: expect.stringMatching(/^[0-9a-f]{40}$/) },
  ]);
});

test("names a missing guest as PVE does", () => {
  const missing = "Configuration file 'nodes/n1/qemu-server/101.conf' does not exist";
  expect(() => guests.configJson("n1", 101)).toThrow(missing);
});

const rows = (node: string, type: "qemu" | "lxc", may = true): Record<string, unknown>[] => {
  const access = { privileges: () => new Map(), has: () => may, require: () => undefined };
  const authid = may ? "root@pam" : "joe@pve";
  const json = guests.listJson(node, type, { actor: { userid: authid, authid }, access });
  return JSON.parse(json.toString()) as Record<string, unknown>[];
};

test("lists the guests of a node that may be seen", () => {
  expect(rows("n1", "qemu")).toEqual([
    expect.objectContaining({ vmid: 100, name: "web", status: "stopped", cpus: 2, memhost: 0 }),
  ]);
  expect(rows("n1", "qemu")[0]).not.toHaveProperty("template");
  expect(rows("n2", "qemu")[0]).toMatchObject({
    template: 1,
    serial: 1,
    balloon_min: 64 * 1024 * 1024,
    shares: 1000,
  });
  expect(rows("n1", "qemu", false)).toEqual([]);
  expect(rows("n1", "lxc")).toEqual([]);
});

test("keeps a node's list until a guest changes", async () => {
  const viewer = {
    actor: { userid: "root@pam", authid: "root@pam" },
    access: { privileges: () => new Map(), has: () => true, require: () => undefined },
  };
  const first = guests.listJson("n1", "qemu", viewer);
  expect(guests.listJson("n1", "qemu", viewer)).toBe(first);
  await records.transact((tx) => tx.delete(guestCollection, "100"));
  expect(guests.listJson("n1", "qemu", viewer).toString()).toBe("[]");
});

test("asks the node for what only QEMU knows where the full list is wanted", async () => {
  const asked = new Set<unknown>();
  const agents = {
    connection: (node: string) => ({
      node,
      call: async ({ params }: { params: Readonly<Record<string, unknown>> }) => {
        asked.add(params["vmid"]);
        if (params["vmid"] === "103") throw new Error("it went away");
        return { data: { qmpstatus: "paused", vmid: 102, blockstat: { a: true }, ha: { managed: 0 } } };
      },
    }),
  };
  const guest = (vmid: number) => ({
    vmid,
    type: "qemu" as const,
    status: "running" as const,
    uptimeSeconds: 1,
    cpu: 0,
    mem: 1,
    diskread: 0,
    diskwrite: 0,
    netin: 0,
    netout: 0,
  });
  const report = { report: { guests: [guest(102), guest(103)] } };
  const board = { list: () => [], get: () => report as never, generation: () => 1 };
  const running = new ReadGuests({
    guests: records.collection(guestCollection),
    board,
    permissions: () => 1,
  });
  await records.transact((tx) => {
    for (const vmid of [102, 103])
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node: "n1", conf: "" }));
  });
  const list = createGuestReadHandlers({ guests: running, movable: {} as never, calls: nodeCalls(agents) })[
    "GET /nodes/{node}/qemu"
  ];
  const access = { privileges: () => new Map(), has: () => true, require: () => undefined };
  const reply = (await list?.({ node: "n1", full: true }, { access } as never)) as { rawJson: string };
  expect(JSON.parse(reply.rawJson)).toEqual([
    expect.objectContaining({ vmid: 100, status: "stopped", qmpstatus: "stopped" }),
    expect.objectContaining({ vmid: 102, status: "running", qmpstatus: "paused", blockstat: { a: true } }),
    expect.objectContaining({ vmid: 103, status: "running", qmpstatus: "running" }),
  ]);
  expect(asked).toEqual(new Set(["102", "103"]));
  expect(await list?.({ node: "n1" }, { access } as never)).toHaveProperty("rawJson");
});

test("refuses two views of a configuration at once", () => {
  const agents = { connection: () => undefined };
  const read = createGuestReadHandlers({ guests, movable: {} as never, calls: nodeCalls(agents) })[
    "GET /nodes/{node}/qemu/{vmid}/config"
  ];
  expect(() => read?.({ node: "n1", vmid: 100, current: true, snapshot: "snap1" }, {} as never)).toThrow(
    "Parameter verification failed.",
  );
});
