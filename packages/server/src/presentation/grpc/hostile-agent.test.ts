// A node that was taken over, with its real certificate on the real port: what it tries on the others' keys, guests and
// leases, and what it still may do with its own.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { isAppError } from "@gpve/contracts/errors.ts";
import {
  goneGuestCollection,
  guestCollection,
  guestRecord,
  withOwner,
} from "@gpve/domain/guest/guest-record.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Channel } from "@gpve/kit/grpc/channel.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import type { Op, Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { decided } from "@gpve/domain/access/testing/decided.ts";
import { etcdStoreOver } from "@gpve/store/etcd/etcd-store.ts";
import { linkOver } from "@gpve/store/etcd/link.ts";
import { Watch } from "@gpve/store/gen/proto/etcdserverpb/rpc_pb.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withGuestPermits } from "../../application/node/guest-permits.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { openTestStore, quietLog, startAgentFace, type AgentFace } from "../../testing/agent-face.ts";

let dir = "";
let store: Store;
let face: AgentFace;
let channel: Channel;
let evil: Store;

const guest = (vmid: number, node: string, more: object = {}): string =>
  JSON.stringify({ vmid, type: "qemu", node, conf: `name: g${vmid}\n`, madeBy: "r", ...more });
const put = (key: string, value = "", extra: object = {}): Op => ({
  type: "put",
  key: utf8(key),
  value: utf8(value),
  ...extra,
});
const gone = (key: string, end?: string): Op => ({
  type: "delete",
  key: utf8(key),
  ...(end === undefined ? {} : { end: utf8(end) }),
});
const tried = (...success: Op[]): Promise<string> =>
  evil.txn({ compare: [], success }).then(
    () => "done",
    (err: unknown) => (isAppError(err) ? err.code : String(err)),
  );
const seen = async (prefix: string): Promise<string[]> => {
  const key = utf8(prefix);
  return (await evil.range({ key, end: prefixEnd(key) })).kvs.map((kv) => fromUtf8(kv.key));
};
const stored = async (key: string): Promise<string | undefined> => {
  const kv = (await store.range({ key: utf8(key) })).kvs[0];
  return kv === undefined ? undefined : fromUtf8(kv.value);
};
/** Deletes a record in the state it has now. */
const goneNow = async (key: string): Promise<string> => {
  const modRevision = (await store.range({ key: utf8(key) })).kvs[0]?.modRevision ?? 0;
  return evil
    .txn({
      compare: [{ key: utf8(key), target: "modRevision", modRevision, result: "equal" }],
      success: [gone(key)],
    })
    .then(
      ({ succeeded }) => (succeeded ? "done" : "not so"),
      (err: unknown) => (isAppError(err) ? err.code : String(err)),
    );
};
/** As a server does before it tells a node to make a guest. */
const permit = (vmid: number, node: string, more: object = {}): Promise<unknown> =>
  withGuestPermits(
    { node, call: () => Promise.resolve({ data: null }), close: () => undefined },
    { records: face.records, clock: systemClock },
  ).call(
    {
      decision: decided("POST /nodes/{node}/qemu", { node, vmid }),
      params: { node, vmid, ...more },
      requestId: "r",
      clientAddress: "",
    },
    new AbortController().signal,
  );

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "gpve-hostile-"));
  store = await openTestStore(dir);
  face = await startAgentFace({ dir, store, masterKey: randomBytes(32) });
  const identity = await face.joinAs("evil");
  await face.joinAs("good");
  channel = face.channelOf(identity);
  evil = etcdStoreOver([linkOver(face.endpoint, () => channel.transport)]);
  const theirs = { "guests/100": guest(100, "good"), "guests/200": guest(200, "evil"), "tasks/good/t": "{}" };
  for (const [key, value] of Object.entries(theirs)) {
    await store.txn({ compare: [], success: [put(`/gpve/${key}`, value)] });
  }
});

afterAll(async () => {
  await evil.close();
  channel.close();
  await face.close();
  await store.close();
  await rm(dir, { recursive: true, force: true });
});

describe("a hostile agent", () => {
  test("sees what agents need, and nothing else", async () => {
    await store.txn({
      compare: [],
      success: [
        "secrets/x",
        "join-tokens/x",
        "audit/x",
        "idempotency/x",
        "operations/a/x",
        "node-data/good/x",
      ].map((key) => put(`/gpve/${key}`, "secret")),
    });
    const keys = await seen("/gpve/");
    expect(keys).toEqual(expect.arrayContaining(["/gpve/guests/100", "/gpve/guests/200"]));
    expect(keys.filter((key) => !/^\/gpve\/(guests|access|storage|pools|cluster)\//.test(key))).toEqual([]);
    for (const key of ["secrets/x", "tasks/good/t", "node-data/good/x", "nodes/good", "guest-permits/1"]) {
      expect((await evil.range({ key: utf8(`/gpve/${key}`) })).kvs, key).toEqual([]);
    }
    await expect(evil.range({ key: utf8("/other/") })).rejects.toThrow(/may not read/);
  });

  test("learns of others' guests that they are there, and nothing of what is in them", async () => {
    const [key, own] = ["/gpve/guests/150", "/gpve/guests/200"];
    const conf = "cipassword: $5$hash\nsshkeys: ssh-ed25519\ntags: web;db\n";
    const secret = guest(150, "good", { conf, microvm: { kernel: "local:snippets/k" }, wantedPool: "p" });
    const brief = { vmid: 150, type: "qemu", node: "good", fence: 0, conf: "tags: web;db\n" };
    const stop = new AbortController();
    const span = { key: utf8("/gpve/guests/"), end: utf8("/gpve/guests0"), prevKv: true };
    const told: unknown[] = [];
    const watching = (async () => {
      for await (const batch of evil.watch({ ...span, signal: stop.signal })) {
        if (batch.type === "ready") {
          await store.txn({ compare: [], success: [put(key, secret)] });
          await store.txn({ compare: [], success: [put(key, secret)] });
          await store.txn({ compare: [], success: [gone(key)] });
        }
        if (batch.type !== "events") continue;
        for (const { type, kv, prevKv } of batch.events) {
          if (fromUtf8(kv.key) !== key) continue;
          told.push(
            type,
            ...[kv, prevKv].map((one) => (one?.value.length ? JSON.parse(fromUtf8(one.value)) : null)),
          );
          if (type === "delete") stop.abort();
        }
      }
    })();
    await watching;
    expect(told).toEqual(["put", brief, null, "put", brief, brief, "delete", null, brief]);

    await store.txn({ compare: [], success: [put(key, secret)] });
    const read = async (name: string) =>
      JSON.parse(fromUtf8((await evil.range({ key: utf8(name) })).kvs[0]?.value ?? utf8("null")));
    expect(await read(key)).toEqual(brief);
    expect(await read(own)).toMatchObject({ conf: "name: g200\n" });
    const inside: Op = { type: "txn", compare: [], success: [{ type: "range", key: utf8(key) }] };
    const { responses } = await evil.txn({ compare: [], success: [inside] });
    expect(
      JSON.stringify(responses, (_name, value: unknown) =>
        value instanceof Uint8Array ? fromUtf8(value) : typeof value === "bigint" ? Number(value) : value,
      ),
    ).not.toContain("cipassword");
    const guess = { key: utf8(key), target: "value", value: utf8(secret), result: "equal" } as const;
    await expect(evil.txn({ compare: [guess], success: [] })).rejects.toMatchObject({
      code: "access.denied",
    });
    const within: Op = { type: "txn", compare: [guess], success: [] };
    expect(await tried(within)).toBe("access.denied");
    await store.txn({ compare: [], success: [gone(key)] });
  });

  test("changes and deletes no guest of another node, nor takes or gives one", async () => {
    expect(await tried(put("/gpve/guests/100", guest(100, "good")))).toBe("access.denied");
    expect(await tried(put("/gpve/guests/100", guest(100, "evil")))).toBe("access.denied");
    expect(await tried(gone("/gpve/guests/100"))).toBe("access.denied");
    expect(await tried(gone("/gpve/guests/", "/gpve/guests0"))).toBe("access.denied");
    expect(await tried(put("/gpve/guests/200", guest(200, "good")))).toBe("access.denied");
    expect(await tried(put("/gpve/guests/200", guest(100, "evil")))).toBe("access.denied");
    // The last two are records to a quick look, but no list of guests could be read with them among it.
    for (const value of [
      "nonsense",
      '{"vmid":200,"node":"evil"}',
      '{"vmid":200,"type":"x","node":"evil","conf":""}',
    ])
      expect(await tried(put("/gpve/guests/200", value)), value).toBe("access.denied");
    expect(await tried(put("/gpve/gone-guests/100", "{}"))).toBe("access.denied");
    // Of a guest of its own, but about another: servers would forget that one in their backup jobs.
    for (const value of ["{}", "nonsense", '{"vmid":100,"purge":true}'])
      expect(await tried(put("/gpve/gone-guests/200", value)), value).toBe("access.denied");
    expect(await tried(gone("/gpve/gone-guests/100"))).toBe("access.denied");
    const hidden: Op = { type: "txn", compare: [], success: [], failure: [gone("/gpve/guests/100")] };
    expect(await tried(hidden)).toBe("access.denied");
    expect(await stored("/gpve/guests/100")).toBe(guest(100, "good"));
    expect(await stored("/gpve/guests/200")).toBe(guest(200, "evil"));
  });

  test("reads where virtual clusters are, and leads nobody elsewhere", async () => {
    const key = "/gpve/vcluster-places/demo.default.vc.gpve";
    const place = '{"serverName":"demo.default.vc.gpve","node":"good","address":"192.0.2.1"}';
    await store.txn({ compare: [], success: [put(key, place)] });
    expect(await seen("/gpve/vcluster-places/")).toEqual([key]);
    expect(await tried(put(key, place.replace("good", "evil")))).toBe("access.denied");
    expect(await tried(put("/gpve/vcluster-places/other.default.vc.gpve", place))).toBe("access.denied");
    expect(await tried(gone(key))).toBe("access.denied");
    expect(await stored(key)).toBe(place);
    await store.txn({ compare: [], success: [gone(key)] });
  });

  test("reads where servers are, and leads nobody to another", async () => {
    const key = "/gpve/servers/s1";
    const place = '{"name":"s1","url":"https://192.0.2.11:8006"}';
    await store.txn({ compare: [], success: [put(key, place)] });
    expect(await seen("/gpve/servers/")).toEqual([key]);
    expect(await tried(put(key, place.replace("192.0.2.11", "192.0.2.66")))).toBe("access.denied");
    expect(await tried(put("/gpve/servers/s2", place))).toBe("access.denied");
    expect(await tried(gone(key))).toBe("access.denied");
    expect(await stored(key)).toBe(place);
    await store.txn({ compare: [], success: [gone(key)] });
  });

  test("makes only guests that a server told it to make", async () => {
    expect(await tried(put("/gpve/guests/300", guest(300, "evil")))).toBe("access.denied");
    expect(await tried(put("/gpve/guest-permits/300", '{"node":"evil"}'))).toBe("access.denied");
    await permit(300, "good");
    expect(await tried(put("/gpve/guests/300", guest(300, "evil")))).toBe("access.denied");
    await permit(300, "evil");
    expect(await tried(put("/gpve/guests/300", guest(300, "good")))).toBe("access.denied");
    expect(await tried(put("/gpve/guests/300", guest(300, "evil", { madeBy: "other" })))).toBe(
      "access.denied",
    );
    expect(await tried(put("/gpve/guests/300", guest(300, "evil", { fence: 7 })))).toBe("access.denied");
    const perhaps: Op = { type: "txn", compare: [], success: [put("/gpve/guests/300", guest(300, "evil"))] };
    expect(await tried(perhaps)).toBe("access.denied");
    expect(await tried(put("/gpve/guests/300", guest(300, "evil")))).toBe("done");
  });

  test("makes a guest once for each time it was told to, and not a day later", async () => {
    const key = "/gpve/guests/310";
    await permit(310, "evil");
    // A transaction that does nothing uses nothing up.
    const missed = await evil.txn({
      compare: [{ key: utf8(key), target: "version", version: 9, result: "equal" }],
      success: [put(key, guest(310, "evil"))],
    });
    expect(missed).toMatchObject({ succeeded: false, responses: [] });
    expect((await evil.txn({ compare: [], success: [put(key, guest(310, "evil"))] })).responses).toHaveLength(
      1,
    );
    expect(await stored("/gpve/guest-permits/310.r")).toBeUndefined();
    expect(await goneNow(key)).toBe("done");
    expect(await tried(put(key, guest(310, "evil")))).toBe("access.denied");
    const at = systemClock.now() - 86_400_000;
    const old = put("/gpve/guest-permits/310.r", JSON.stringify({ node: "evil", at }));
    await store.txn({ compare: [], success: [old] });
    expect(await tried(put(key, guest(310, "evil")))).toBe("access.denied");
    // The next permit sweeps it away.
    await permit(311, "evil");
    expect(await stored("/gpve/guest-permits/310.r")).toBeUndefined();
  });

  test("names no pool for its guests but the one that was asked for", async () => {
    const [plain, pooled] = ["/gpve/guests/320", "/gpve/guests/321"];
    const wants = (wantedPool: string): object => ({ wantedPool });
    await permit(320, "evil");
    expect(await tried(put(plain, guest(320, "evil", wants("theirs"))))).toBe("access.denied");
    expect(await tried(put(plain, guest(320, "evil")))).toBe("done");
    expect(await tried(put(plain, guest(320, "evil", wants("theirs"))))).toBe("access.denied");
    await permit(321, "evil", { pool: "ours" });
    expect(await tried(put(pooled, guest(321, "evil", wants("theirs"))))).toBe("access.denied");
    expect(await tried(put(pooled, guest(321, "evil")))).toBe("access.denied");
    expect(await tried(put(pooled, guest(321, "evil", wants("ours"))))).toBe("done");
    expect(await tried(put(pooled, guest(321, "evil", { ...wants("ours"), conf: "name: x\n" })))).toBe(
      "done",
    );
    // Restored over, it is another guest under its id, which somebody else may have asked for.
    const restored = { ...wants("other"), madeBy: "restore" };
    expect(await tried(put(plain, guest(320, "evil", restored)))).toBe("access.denied");
    const asked = put(
      "/gpve/guest-permits/320.restore",
      JSON.stringify({ node: "evil", at: systemClock.now(), pool: "other" }),
    );
    await store.txn({ compare: [], success: [asked] });
    expect(await tried(put(plain, guest(320, "evil", restored)))).toBe("done");
  });

  test("writes no guest by what it knew before the guest had another owner", async () => {
    const key = "/gpve/guests/330";
    await permit(330, "evil");
    expect(await tried(put(key, guest(330, "evil")))).toBe("done");
    const give = (node: string): Promise<void> =>
      face.records.transact((tx) => {
        const entry = tx.get(guestCollection, "330");
        if (entry !== undefined) tx.put(guestCollection, "330", withOwner(entry.value, node));
      });
    await face.records.fresh();
    await give("good");
    expect(await tried(put(key, guest(330, "evil")))).toBe("access.denied");
    expect(await tried(put(key, guest(330, "evil", { fence: 1 })))).toBe("access.denied");
    expect(await goneNow(key)).toBe("access.denied");
    await give("evil");
    for (const fence of [0, 1, 3]) {
      expect(await tried(put(key, guest(330, "evil", { fence }))), String(fence)).toBe("access.denied");
    }
    expect(await tried(gone(key)), "a deletion that says nothing of what it deletes").toBe("access.denied");
    expect(await tried(put(key, guest(330, "evil", { fence: 2, conf: "name: back\n" })))).toBe("done");
    expect(await goneNow(key)).toBe("done");
  });

  test("writes no keys of others, and no marks but those of deletions", async () => {
    for (const key of [
      "tasks/good/t",
      "node-data/good/x",
      ".commit/node-good/x",
      ".leases/good/1",
      ".leases/evil/1",
      "nodes/good",
      "nodes/evil",
      "access/users/evil@pve",
      "secrets/pki/agents",
      "join-tokens/x",
      "storage/local",
      ".deleted/nodes/",
    ]) {
      expect(await tried(put(`/gpve/${key}`)), key).toBe("access.denied");
      expect(await tried(gone(`/gpve/${key}`)), key).toBe("access.denied");
    }
    expect(await tried(gone("/gpve/.deleted/guests/"))).toBe("access.denied");
    expect(await tried(put("/gpve/.deleted/guests/", "x"))).toBe("access.denied");
  });

  test("stores no task that others cannot read, or that says it is another node's", async () => {
    const upid = (node: string): string => `UPID:${node}:00000001:00000001:00000001:qmstart:200:root@pam:`;
    const key = (name: string): string => `/gpve/tasks/evil/${name}`;
    const task = (of: string): string => JSON.stringify({ upid: of });
    for (const [name, value] of [
      ["t", "nonsense"],
      ["t", "{}"],
      ["t", task("t")],
      [upid("evil"), "null"],
      [upid("evil"), task(upid("good"))],
      [upid("good"), task(upid("good"))],
    ] as const)
      expect(await tried(put(key(name), value)), `${name} ${value}`).toBe("access.denied");
    expect(await tried(put(key(upid("evil")), task(upid("evil"))))).toBe("done");
    await face.records.fresh();
    expect(face.records.collection(taskRecords).list()).toHaveLength(1);
    expect(await tried(gone(key(upid("evil"))))).toBe("done");
  });

  test("keeps, ends and uses no lease that another made", async () => {
    const servers = await store.leaseGrant(60);
    for (const call of [
      evil.leaseKeepAlive(servers.id),
      evil.leaseRevoke(servers.id),
      evil.txn({ compare: [], success: [put("/gpve/node-data/evil/t", "{}", { lease: servers.id })] }),
    ]) {
      await expect(call).rejects.toMatchObject({ code: "object.not_found" });
    }
    expect((await evil.leaseStatus(servers.id)).ttlSeconds).toBe(-1);
    expect((await store.leaseStatus(servers.id)).ttlSeconds).toBeGreaterThan(0);
    const own = await evil.leaseGrant(60);
    expect(await evil.leaseKeepAlive(own.id)).toBeGreaterThan(0);
    expect(await tried(put("/gpve/node-data/evil/leased", "{}", { lease: own.id }))).toBe("done");
    expect((await evil.leaseStatus(own.id)).keys.map(fromUtf8)).toEqual(["/gpve/node-data/evil/leased"]);
    await evil.leaseRevoke(own.id);
    expect(await stored("/gpve/node-data/evil/leased")).toBeUndefined();
  });

  test("has one watch for each stream, however many it asks for", async () => {
    const stop = new AbortController();
    const key = utf8("/gpve/");
    const createRequest = { key, rangeEnd: prefixEnd(key) };
    async function* asks(): AsyncGenerator<{
      requestUnion: { case: "createRequest"; value: typeof createRequest };
    }> {
      for (let i = 0; i < 3; i++) yield { requestUnion: { case: "createRequest", value: createRequest } };
      await once(stop.signal, "abort");
    }
    const answers: boolean[] = [];
    const watch = createClient(Watch, channel.transport).watch(asks(), { signal: stop.signal });
    for await (const { canceled, cancelReason } of watch) {
      answers.push(canceled);
      if (canceled) expect(cancelReason).toBe("etcdserver: too many requests");
      if (answers.length === 3) break;
    }
    stop.abort();
    expect(answers).toEqual([false, true, true]);
  });

  test("an honest agent's records work as before: its guests, tasks and data", async () => {
    const records = await openRecords(evil, { prefix: "/gpve/", corner: "node-evil", log: quietLog });
    const own = guestRecord({ vmid: 400, type: "qemu", node: "evil", conf: "name: mine\n", madeBy: "r" });
    await permit(400, "evil");
    await records.transact((tx) => {
      if (tx.get(guestCollection, "400") === undefined) tx.put(guestCollection, "400", own);
    });
    await records.transact((tx) => {
      expect(tx.list(guestCollection).map(({ id }) => id)).toContain("400");
      tx.put(guestCollection, "400", guestRecord({ ...own, conf: "name: renamed\n" }));
    });
    await records.transact((tx) => {
      expect(tx.get(guestCollection, "400")?.value.conf).toBe("name: renamed\n");
      tx.delete(guestCollection, "400");
      tx.put(goneGuestCollection, "400", { vmid: 400 });
    });
    expect(await stored("/gpve/guests/400")).toBeUndefined();
    expect(await stored("/gpve/gone-guests/400")).toBe('{"vmid":400}');
    await records.close();
  });
});
