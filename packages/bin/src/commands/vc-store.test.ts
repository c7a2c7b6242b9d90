// The real processes of two nodes' stores, one of which follows the other: the first is killed in the midst of writes, and
// whatever it has answered is there when the second goes on. etcd's own client reads it, where this machine has it.
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { openSocketStore } from "@gpve/store/etcd/socket-store.ts";
import { StandbyFiles } from "@gpve/store/standby/standby-files.ts";

const root = resolve(import.meta.dirname, "../../../..");
const POLL = { timeout: 60_000, interval: 20 };
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

let folder: string;
const ending: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-vcs-"));
});
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
  rmSync(folder, { recursive: true, force: true });
});

async function process(name: string) {
  const place = join(folder, name);
  mkdirSync(place);
  const main = join(root, "packages/bin/src/main.js");
  const child = startChild(join(root, "node_modules/.bin/node"), [main, "vc-store", place], {
    env: MINIMAL_ENV,
  });
  const kill = async (): Promise<void> => {
    child.signal("SIGKILL");
    await child.exited;
  };
  ending.push(kill);
  const files = new StandbyFiles(place);
  await expect.poll(() => existsSync(files.path("link")), POLL).toBe(true);
  const socket = join(place, "sock", "demo", "etcd.sock");
  const serve = async () => {
    for (const kind of ["db", "sock"]) mkdirSync(join(place, kind, "demo"), { recursive: true });
    writeFileSync(join(place, "serve", "demo"), "");
    await expect.poll(() => existsSync(socket), POLL).toBe(true);
    const store = openSocketStore(socket);
    ending.push(() => store.close());
    return store;
  };
  return { files, socket, serve, kill };
}

/** What the two agents do. */
function joinBoth(a: Socket, b: Socket): void {
  a.pipe(b).pipe(a);
  for (const each of [a, b]) {
    each.on("error", () => each.destroy());
    each.on("close", () => [a, b].forEach((one) => one.destroy()));
  }
}

/** A port that leads to a socket. */
async function passage(path: string): Promise<number> {
  const server = createServer((socket) => joinBoth(socket, connect(path)));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  ending.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

test("what a store has answered is at its standby when its process is killed", async () => {
  const [a, b] = [await process("a"), await process("b")];
  const store = await a.serve();
  mkdirSync(b.files.path("standby", "demo"));
  b.files.setFollow("demo", 1);
  a.files.setLead("demo", { generation: 1, mode: "stream", boundMs: 0 });
  await expect.poll(() => existsSync(b.files.path("link", "follow-demo.sock")), POLL).toBe(true);
  joinBoth(
    connect(a.files.path("link", "lead-demo.sock")),
    connect(b.files.path("link", "follow-demo.sock")),
  );
  await expect.poll(() => a.files.state("demo")?.isJoined, POLL).toBe(true);

  const answered = new Map<string, number>();
  let isOver = false;
  const writing = Array.from({ length: 8 }, async (_none, writer) => {
    for (let at = 0; !isOver; at++) {
      const key = `/k/${writer}/${at}`;
      const put = { type: "put", key: text(key), value: text(key) } as const;
      const { revision } = await store.txn({ compare: [], success: [put] });
      answered.set(key, revision);
    }
  }).map((each) => each.catch(() => undefined));
  await expect.poll(() => answered.size, POLL).toBeGreaterThan(50);
  await a.kill();
  isOver = true;
  await Promise.all(writing);

  b.files.setFollow("demo", undefined);
  await expect.poll(() => existsSync(b.files.path("link", "follow-demo.sock")), POLL).toBe(false);
  renameSync(b.files.path("standby", "demo"), b.files.path("db", "demo"));
  const after = await b.serve();
  const { kvs } = await after.range({ key: text("/k/"), end: text("/k0") });
  const there = new Map(kvs.map(({ key, modRevision }) => [new TextDecoder().decode(key), modRevision]));
  expect([...answered].filter(([key, revision]) => there.get(key) !== revision)).toEqual([]);
  expect(there.size).toBeGreaterThanOrEqual(answered.size);

  const etcdctl = "/usr/bin/etcdctl";
  if (!existsSync(etcdctl)) return;
  const [first = "", revision = 0] = [...answered][0] ?? [];
  // Over a port: to a socket of this machine an old one says a name that HTTP/2 knows nothing of.
  const port = await passage(b.socket);
  const args = [`--endpoints=127.0.0.1:${port}`, "get", first, "-w", "json"];
  const { stdout } = await exec(etcdctl, args, { env: { ...MINIMAL_ENV, ETCDCTL_API: "3" } });
  expect(JSON.parse(stdout)).toMatchObject({ count: 1, kvs: [{ mod_revision: revision, version: 1 }] });
});
