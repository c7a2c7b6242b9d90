// Two processes' worth of stores, each in a folder of its own, and the line between them that agents make of it: what is
// asked and answered goes over etcd's own API.
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { openSocketStore } from "../etcd/socket-store.ts";
import { ManyStores } from "../etcd-server/many-stores.ts";
import type { Store } from "../port.ts";
import { StandbyFiles } from "./standby-files.ts";

interface Node {
  readonly folder: string;
  readonly files: StandbyFiles;
  stores: ManyStores;
}

let here: Node;
let there: Node;
let line: { cut(): void } | undefined;
const opened: Store[] = [];
const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const POLL = { timeout: 20_000, interval: 10 };

async function node(name: string): Promise<Node> {
  const folder = mkdtempSync(join(tmpdir(), `gpve-standby-${name}-`));
  return { folder, files: new StandbyFiles(folder), stores: await begin(folder) };
}

async function begin(folder: string): Promise<ManyStores> {
  const stores = new ManyStores({ folder, clock: systemClock, say: () => undefined });
  await stores.start();
  return stores;
}

/** As the two agents do: while it is wanted, bytes go from the one socket to the other. */
function openLine(): { cut(): void } {
  let open: Socket[] = [];
  let isWanted = true;
  const dial = (): void => {
    if (!isWanted) return;
    const a = connect(here.files.path("link", "lead-demo.sock"));
    const b = connect(there.files.path("link", "follow-demo.sock"));
    open = [a, b];
    a.pipe(b);
    b.pipe(a);
    let isOver = false;
    for (const [one, other] of [
      [a, b],
      [b, a],
    ] as const) {
      one.on("error", () => one.destroy());
      one.on("close", () => {
        other.destroy();
        if (!isOver) setTimeout(dial, 20);
        isOver = true;
      });
    }
  };
  dial();
  return {
    cut() {
      isWanted = false;
      for (const socket of open) socket.destroy();
    },
  };
}

beforeEach(async () => {
  here = await node("here");
  there = await node("there");
});
afterEach(async () => {
  line?.cut();
  for (const store of opened.splice(0)) await store.close();
  for (const each of [here, there]) {
    await each.stores.close();
    rmSync(each.folder, { recursive: true, force: true });
  }
});

function serve({ folder }: Node): void {
  for (const kind of ["db", "sock"]) mkdirSync(join(folder, kind, "demo"), { recursive: true });
  writeFileSync(join(folder, "serve", "demo"), "");
}

async function client(at: Node): Promise<Store> {
  await expect.poll(() => at.stores.names, POLL).toContain("demo");
  const store = openSocketStore(join(at.folder, "sock", "demo", "etcd.sock"));
  opened.push(store);
  return store;
}

const put = (store: Store, key: string, value: string, lease?: bigint) =>
  store.txn({
    compare: [],
    success: [{ type: "put", key: text(key), value: text(value), ...given({ lease }) }],
  });

const isJoined = () => here.files.state("demo")?.isJoined === true;

async function joined(boundMs = 0, generation = 1): Promise<Store> {
  serve(here);
  const store = await client(here);
  await put(store, "/before", "1");
  mkdirSync(there.files.path("standby", "demo"), { recursive: true });
  there.files.setFollow("demo", generation);
  here.files.setLead("demo", { generation, mode: "stream", boundMs });
  line = openLine();
  await expect.poll(isJoined, POLL).toBe(true);
  return store;
}

/** What a node does that is to lead: the standby's database becomes a store's. */
async function promote(): Promise<Store> {
  there.files.setFollow("demo", undefined);
  await expect.poll(() => existsSync(there.files.path("link", "follow-demo.sock")), POLL).toBe(false);
  renameSync(there.files.path("standby", "demo"), there.files.path("db", "demo"));
  serve(there);
  return client(there);
}

/** Resolves with false when it is still open after a moment. */
async function isAnswered(answer: Promise<unknown>, ms = 300): Promise<boolean> {
  return Promise.race([answer.then(() => true), systemClock.sleep(ms).then(() => false)]);
}

describe("a store with a standby", () => {
  test("is followed revision for revision, and goes on there with all that was answered", async () => {
    const store = await joined();
    const { id } = await store.leaseGrant(600);
    await put(store, "/leased", "x", id);
    for (let at = 0; at < 100; at++) await put(store, `/k${at % 10}`, String(at));
    await store.txn({ compare: [], success: [{ type: "delete", key: text("/k3") }] });
    await store.compact(50);
    const last = await put(store, "/last", "1");
    const all = { key: text("/"), end: text("0") };
    const before = await store.range(all);
    line?.cut();
    const after = await promote();
    expect(await after.revision()).toBe(last.revision);
    const now = await after.range(all);
    expect(now.kvs).toEqual(before.kvs);
    expect(await after.leases()).toEqual([id]);
    expect((await after.leaseStatus(id)).keys).toEqual([text("/leased")]);
    await expect(after.range({ ...all, revision: 49 })).rejects.toThrow("compacted");
    expect((await after.range({ ...all, revision: 60 })).kvs).toEqual(
      (await store.range({ ...all, revision: 60 })).kvs,
    );
    // It goes on counting where the first one was.
    expect((await put(after, "/next", "1")).revision).toBe(last.revision + 1);
  });

  test("answers no write before the standby has it, and all of them when that is back", async () => {
    const store = await joined();
    line?.cut();
    const waiting = put(store, "/waits", "1");
    expect(await isAnswered(waiting)).toBe(false);
    // Nobody is shown what may be lost.
    expect(await isAnswered(store.range({ key: text("/waits") }))).toBe(false);
    line = openLine();
    const { revision } = await waiting;
    line.cut();
    const after = await promote();
    expect((await after.range({ key: text("/waits") })).kvs).toMatchObject([{ modRevision: revision }]);
  });

  test("goes on without it when it is told so, and catches up later", async () => {
    const store = await joined();
    line?.cut();
    const waiting = put(store, "/waits", "1");
    expect(await isAnswered(waiting)).toBe(false);
    here.files.setLead("demo", { generation: 2, mode: "solo", boundMs: 0 });
    await waiting;
    await put(store, "/alone", "1");
    expect(here.files.state("demo")?.isJoined).toBe(false);
    there.files.setFollow("demo", 3);
    here.files.setLead("demo", { generation: 3, mode: "stream", boundMs: 0 });
    line = openLine();
    await expect.poll(isJoined, POLL).toBe(true);
    line.cut();
    const after = await promote();
    expect((await after.range({ key: text("/alone") })).kvs).toHaveLength(1);
  });

  test("is not followed by one of another generation", async () => {
    const store = await joined();
    there.files.setFollow("demo", 2);
    await expect.poll(() => here.files.state("demo")?.isConnected, POLL).toBe(false);
    expect(await isAnswered(put(store, "/waits", "1"))).toBe(false);
  });

  test("with a bound answers at once, but is ahead of its standby by no more than that", async () => {
    const store = await joined(1_000);
    line?.cut();
    await put(store, "/first", "1");
    await put(store, "/second", "1");
    await systemClock.sleep(1_100);
    const late = put(store, "/late", "1");
    expect(await isAnswered(late)).toBe(false);
    line = openLine();
    await late;
    const states = () => here.files.state("demo");
    await expect.poll(() => states()?.confirmed === states()?.revision, POLL).toBe(true);
  });

  test("serves nobody after a restart before its standby says that it still leads", async () => {
    await joined();
    line?.cut();
    await here.stores.close();
    here.stores = await begin(here.folder);
    await systemClock.sleep(300);
    expect(here.stores.names).toEqual([]);
    line = openLine();
    await expect.poll(() => here.stores.names, POLL).toEqual(["demo"]);
    line.cut();
    await here.stores.close();
    here.stores = await begin(here.folder);
    here.files.setLead("demo", { generation: 2, mode: "solo", boundMs: 0 });
    await expect.poll(() => here.stores.names, POLL).toEqual(["demo"]);
  });

  test("gives a standby that has another history all of its own", async () => {
    const store = await joined();
    await put(store, "/a", "1");
    line?.cut();
    await here.stores.close();
    const kept = join(here.folder, "kept");
    cpSync(join(here.folder, "db", "demo"), kept, { recursive: true });
    // It goes on, and what it was before is brought back: the same revisions, with another content.
    here.stores = await begin(here.folder);
    line = openLine();
    const first = await client(here);
    await put(first, "/b", "of the first life");
    line.cut();
    await here.stores.close();
    rmSync(join(here.folder, "db", "demo"), { recursive: true });
    renameSync(kept, join(here.folder, "db", "demo"));
    here.files.setLead("demo", { generation: 2, mode: "solo", boundMs: 0 });
    here.stores = await begin(here.folder);
    const second = await client(here);
    await put(second, "/b", "of the second life");
    there.files.setFollow("demo", 3);
    here.files.setLead("demo", { generation: 3, mode: "stream", boundMs: 0 });
    line = openLine();
    await expect.poll(() => here.files.state("demo")?.generation === 3 && isJoined(), POLL).toBe(true);
    line.cut();
    const after = await promote();
    const { kvs } = await after.range({ key: text("/b") });
    expect(new TextDecoder().decode(kvs[0]?.value)).toBe("of the second life");
  });

  test("is heard of at its standby while there is a line, and no longer when there is none", async () => {
    await joined();
    const isFed = (): boolean => there.files.isFed("demo");
    await expect.poll(isFed, POLL).toBe(true);
    line?.cut();
    await expect.poll(isFed, POLL).toBe(false);
    line = openLine();
    await expect.poll(isFed, POLL).toBe(true);
    there.files.setFollow("demo", undefined);
    await expect.poll(isFed, POLL).toBe(false);
  });

  test("ends while writes wait for a standby that is away", async () => {
    const store = await joined();
    line?.cut();
    const waiting = put(store, "/waits", "1").catch(() => "gone");
    expect(await isAnswered(waiting)).toBe(false);
    rmSync(join(here.folder, "serve", "demo"));
    await expect.poll(() => existsSync(join(here.folder, "db", "demo", "state.db-wal")), POLL).toBe(false);
  });
});
