// Two nodes: the store of a cluster on the one, its standby on the other, and the line that the agents keep between them.
// Stores, sockets and files are real; the processes of the stores are in this one.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openSocketStore } from "@gpve/store/etcd/socket-store.ts";
import { ManyStores } from "@gpve/store/etcd-server/many-stores.ts";
import type { Store } from "@gpve/store/port.ts";
import { StandbyFiles } from "@gpve/store/standby/standby-files.ts";
import { LineProcess } from "../../../infrastructure/vcluster/line/line-process.ts";
import { keptLines } from "../../../testing/kept-lines.ts";
import { LinuxStandbyHost } from "../../../infrastructure/vcluster/standby/linux-standby-host.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { heardLog } from "../../../testing/heard-log.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { KeepLines } from "./keep-lines.ts";
import { standbyOperations } from "./standby-operations.ts";
import { standbyRoutes } from "./standby-routes.ts";

const end = (node: string) => ({ node, address: "", port: 0, fingerprints: [] });
const ctx = { actor: { authid: "root@pam" } } as unknown as RequestContext;
const running: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec: readVirtualClusterSpec({}),
  version: "1.36.4",
  network: 3,
  phase: "Running",
  isWanted: true,
};
const POLL = { timeout: 20_000, interval: 10 };
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-standbys-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  rmSync(folder, { recursive: true, force: true });
});

async function node(name: string) {
  const place = join(folder, name);
  const store = join(place, "store");
  const stores = new ManyStores({ folder: store, clock: systemClock, say: () => undefined });
  let isIdle = false;
  let starts = 0;
  const running: { uid: number | undefined } = { uid: process.getuid?.() ?? 0 };
  const standbys = new LinuxStandbyHost({
    folder: place,
    clock: systemClock,
    stores: {
      ensure: async () => {
        if (running.uid === undefined) starts++;
        running.uid = process.getuid?.() ?? 0;
      },
      uid: () => running.uid,
      own: async (path) => void mkdirSync(path, { recursive: true }),
      isServed: (each) => existsSync(join(store, "serve", each)),
    },
  });
  await stores.start();
  const host = new FakeClusterHost();
  const brought: string[] = [];
  const routed: string[] = [];
  const { engine } = testEngine();
  const operations = standbyOperations({
    host,
    standbys,
    phases: new ClusterPhases(host, () => undefined),
    workers: {
      bring: () => Promise.reject(new Error("no room")),
      equip: async ({ workers }) => void (workers > 0 && brought.push(`what ${workers} workers need`)),
    },
    vnodes: {
      list: () => [],
      route: async ({ name: each }) => void routed.push(each),
    },
    ensureComponent: async (component, version) => void brought.push(`${component} ${version}`),
  });
  for (const operation of operations) engine.register(operation);
  await engine.start();
  closing.push(() => stores.close());
  const routes = standbyRoutes({
    host,
    standbys,
    engine,
    changed: () => undefined,
    stopIfIdle: async () => void (isIdle = true),
  });
  let count = 0;
  const ask = async (route: keyof typeof routes, more: object = {}): Promise<unknown> => {
    const asked = { node: name, vcluster: "demo", tenant: "shop", requestId: `r${++count}`, ...more };
    const answer = await (routes[route] as (asked: object, ctx: RequestContext) => unknown)(asked, ctx);
    if (typeof answer !== "string") return answer;
    const { state, error = "" } = await engine.wait(answer);
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  const end = (): void => void (running.uid = undefined);
  /** Whether a process that keeps lines runs. */
  const keeps = { lines: () => false };
  return {
    keeps,
    files: new StandbyFiles(store),
    place,
    store,
    standbys,
    host,
    ask,
    brought,
    routed,
    end,
    isIdle: () => isIdle,
    starts: () => starts,
  };
}

type Node = Awaited<ReturnType<typeof node>>;

async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The process that keeps a node's lines, in this one; it is there for every agent that the node has. */
function keepsLines({ place, store, keeps }: Node): () => LineProcess {
  const lines = keptLines(join(place, "agent.sock"));
  keeps.lines = lines.runs;
  closing.push(lines.end);
  const { processes } = lines;
  const stores = { lendLinks: async () => join(store, "link") };
  const self = { program: "gpve", args: [], folders: [] };
  return () => new LineProcess({ processes, stores, self, clock: systemClock });
}

function serve({ store }: Node): void {
  for (const kind of ["db", "sock"]) mkdirSync(join(store, kind, "demo"), { recursive: true });
  writeFileSync(join(store, "serve", "demo"), "");
}

async function client({ store }: Node): Promise<Store> {
  const path = join(store, "sock", "demo", "etcd.sock");
  await expect.poll(() => existsSync(path), POLL).toBe(true);
  const opened = openSocketStore(path);
  closing.push(() => opened.close());
  return opened;
}

const put = (store: Store, key: string) =>
  store.txn({ compare: [], success: [{ type: "put", key: text(key), value: text("1") }] });

const LEAD = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby";
const KEYS = "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys";
const FOLLOW = "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}";
const FORGET = "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}";
const PROMOTE = "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote";
const spec = { controlPlane: { tier: "Standard" }, workerNodes: { count: 2 } };

/** As a server leads them: who follows, then who is followed. */
async function followed(
  allowed: () => boolean = () => true,
  lasts: "well" | "not known there" | "not let through" = "well",
) {
  const [a, b] = [await node("a"), await node("b")];
  a.host.save(running);
  serve(a);
  const store = await client(a);
  const { version, secrets } = (await a.ask(KEYS)) as { version: string; secrets: object };
  expect(await b.ask(FOLLOW, { generation: 5, spec, version, secrets })).toBe("done");
  await a.ask(LEAD, { generation: 5, mode: "stream", boundMs: 0 });
  const ways: string[] = [];
  const [ofA, ofB] = [keepsLines(a), keepsLines(b)];
  /** Of node a, which keeps lines for as long as it is there. */
  const agent = () => {
    const { log } = heardLog();
    const lasting = ofA();
    const lines = new KeepLines({
      standbys: a.standbys,
      clock: systemClock,
      log,
      changed: () => undefined,
      lasting,
      peers: {
        standbyPlace: async ({ id, vcluster = "" }) => {
          if (lasts === "not known there") throw new AppError("access.denied", "nobody knows of such lines");
          ways.push("lasting");
          if (lasts === "not let through") return { port: await closedPort(), secret: "5e".repeat(32) };
          return there.place(id, "127.0.0.1", b.standbys.followEnd(vcluster));
        },
        standbyLine: async ({ vcluster = "" }, { path }, signal) => {
          ways.push("agents");
          const ends = [connect(path), connect(b.standbys.followEnd(vcluster).path)] as const;
          ends[0].pipe(ends[1]).pipe(ends[0]);
          const ended = ends.map(
            (each) =>
              new Promise<void>((resolve) => each.on("error", () => each.destroy()).on("close", resolve)),
          );
          signal.addEventListener("abort", () => ends[0].destroy());
          await Promise.race(ended);
          for (const each of ends) each.destroy();
        },
      },
      findMove: async (id): Promise<GuestMove | undefined> =>
        allowed()
          ? {
              vmid: 0,
              id,
              from: end("a"),
              to: { ...end("b"), address: "127.0.0.1" },
              at: 0,
              purpose: "standby",
              vcluster: "demo",
            }
          : undefined,
    });
    lines.start();
    const leave = (): void => {
      lines.close();
      lasting.leave();
    };
    closing.push(leave);
    return { leave };
  };
  const there = ofB();
  closing.push(() => there.leave());
  return { a, b, store, agent, ways, ...agent() };
}

const isJoined = (at: Node) => at.standbys.state("demo")?.isJoined === true;

describe("the standby of another node's cluster", () => {
  test("follows its store, and goes on as a cluster of its own node with the keys of the first", async () => {
    const { a, b, store } = await followed();
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    const { revision } = await put(store, "/k");
    expect(a.standbys.state("demo")).toMatchObject({ generation: 5, isConnected: true });
    expect(b.standbys.list()).toMatchObject([{ name: "demo", tenant: "shop", version: "1.36.4" }]);
    // All that it would be started with: there may be nobody to bring it then.
    expect(b.brought).toEqual(["kubernetes 1.36.4", "what 2 workers need"]);
    expect(await b.ask(PROMOTE, { spec })).toBe("done");
    expect(b.host.get("demo")).toMatchObject({
      phase: "Running",
      isWanted: true,
      spec: { tier: "Standard" },
    });
    expect(b.standbys.list()).toEqual([]);
    serve(b);
    const after = await client(b);
    expect(await after.revision()).toBe(revision);
    expect((await after.range({ key: text("/k") })).kvs).toMatchObject([{ modRevision: revision }]);
    // Asked again when it has long been done.
    expect(await b.ask(PROMOTE, { spec })).toBe("done");
    // The first one tells nobody of anything any more.
    await expect.poll(() => a.standbys.state("demo")?.isConnected, POLL).toBe(false);
    const answered = put(store, "/lost").then(
      () => "answered",
      () => "refused",
    );
    expect(await Promise.race([answered, systemClock.sleep(300).then(() => "waits")])).toBe("waits");
  });

  test("is also on a node with workers of it, and has its network when it goes on", async () => {
    const b = await node("b");
    const nodes = ["a", "b"].map((each, at) => ({ node: each, address: `192.0.2.${at + 1}` }));
    const workers: KeptCluster = { ...running, network: 2048, overlay: { nodes, at: 1 } };
    b.host.save(workers);
    const follow = { generation: 5, spec, version: "1.36.4", secrets: {}, network: 2048 };
    await expect(b.ask(FOLLOW, { ...follow, vcluster: "other" })).rejects.toThrow("network 2048");
    b.host.broken.add("overlay");
    await expect(b.ask(FOLLOW, follow)).rejects.toThrow("cannot make a VXLAN device");
    b.host.broken.delete("overlay");
    expect(await b.ask(FOLLOW, follow)).toBe("done");
    const place = { network: 2048, overlay: { nodes, at: 1, home: 1 } };
    expect(await b.ask(PROMOTE, { spec, ...place })).toBe("done");
    expect(b.host.get("demo")).toMatchObject({ phase: "Running", ...place });
    expect(b.routed).toEqual(["demo"]);
  });

  test("is reached by a line that a server has allowed, opened again when it was cut", async () => {
    let mayCome = false;
    const { a, b } = await followed(() => mayCome);
    await systemClock.sleep(600);
    expect(isJoined(a)).toBe(false);
    mayCome = true;
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    // It is somebody else's from now on, and then this one's again.
    b.standbys.save({ ...(b.standbys.get("demo") as never as object), generation: 6 } as never);
    await b.standbys.follow("demo");
    await expect.poll(() => a.standbys.state("demo")?.isConnected, POLL).toBe(false);
    await a.ask(LEAD, { generation: 6, mode: "stream", boundMs: 0 });
    await expect.poll(() => a.standbys.state("demo"), POLL).toMatchObject({ generation: 6, isJoined: true });
    expect(standbyLineId("demo", 6)).toBe("standby-demo-6");
  });

  test("heeds what was said last, and refuses what is older or another's", async () => {
    const { a, b } = await followed();
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    await a.ask(LEAD, { generation: 9, mode: "solo", boundMs: 0 });
    expect(a.standbys.wantedLines()).toEqual([]);
    await expect(a.ask(LEAD, { generation: 8, mode: "stream", boundMs: 0 })).rejects.toThrow("is older than");
    const old = { generation: 4, spec, version: "1.36.4", secrets: {} };
    await expect(b.ask(FOLLOW, old)).rejects.toThrow("which is newer");
    await expect(b.ask(FOLLOW, { ...old, generation: 9, tenant: "other" })).rejects.toThrow("another tenant");
    await expect(a.ask(FOLLOW, { ...old, generation: 9 })).rejects.toThrow("cannot be its standby");
    await expect(a.ask(KEYS, { tenant: "other" })).rejects.toThrow("there is no virtual cluster");
    expect(await a.ask(PROMOTE, { spec, vcluster: "none" })).toContain("has no standby on this node");
  });

  test("and all other stores are served again when their process has ended", async () => {
    const { a } = await followed();
    a.end();
    await expect.poll(() => a.starts(), POLL).toBe(1);
    rmSync(join(a.store, "serve", "demo"));
    a.end();
    expect(await a.standbys.keepProcess()).toBe(false);
  });

  test("confirms what is written while no agent is there, and the next agent finds the line as it is", async () => {
    const { a, b, store, ways, leave, agent } = await followed();
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    const { since } = a.files.state("demo") ?? {};
    leave();
    const { revision } = await put(store, "/k");
    await expect.poll(() => b.standbys.isFed("demo"), POLL).toBe(true);
    // Cut while nobody is there to open it again but who keeps it.
    b.standbys.save({ ...(b.standbys.get("demo") as never as object), generation: 6 } as never);
    await b.standbys.follow("demo");
    await expect.poll(() => a.standbys.state("demo")?.isConnected, POLL).toBe(false);
    b.standbys.save({ ...(b.standbys.get("demo") as never as object), generation: 5 } as never);
    await b.standbys.follow("demo");
    await expect.poll(() => a.standbys.state("demo")?.isConnected, POLL).toBe(true);
    expect((await put(store, "/l")).revision).toBe(revision + 1);
    const then = a.files.state("demo")?.since ?? 0;
    expect(then).toBeGreaterThan(since ?? 0);
    agent();
    await systemClock.sleep(600);
    await put(store, "/m");
    expect(a.files.state("demo")).toMatchObject({ since: then, isConnected: true });
    expect(new Set(ways)).toEqual(new Set(["lasting"]));
  });

  test("is reached by way of the agents where there is no line that lasts, and is not when one is away", async () => {
    const { a, b, store, ways, leave } = await followed(() => true, "not known there");
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    await put(store, "/k");
    expect(new Set(ways)).toEqual(new Set(["agents"]));
    expect(a.keeps.lines()).toBe(false);
    await expect.poll(() => b.standbys.isFed("demo"), POLL).toBe(true);
    leave();
    await expect.poll(() => b.standbys.isFed("demo"), POLL).toBe(false);
    b.end();
    expect(b.standbys.isFed("demo")).toBe(false);
  });

  test("is reached by way of the agents where nobody is let through, which is not tried at each line", async () => {
    const { a, b, ways } = await followed(() => true, "not let through");
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    const tries = ways.filter((way) => way === "lasting").length;
    expect([tries, ways.at(-1)]).toEqual([1, "agents"]);
    await b.ask(FORGET);
    await expect.poll(() => a.standbys.state("demo")?.isConnected, POLL).toBe(false);
    await systemClock.sleep(1_500);
    expect(ways.filter((way) => way === "lasting")).toHaveLength(1);
  });

  test("leaves nothing when it is not wanted any more", async () => {
    const { a, b } = await followed();
    await expect.poll(() => isJoined(a), POLL).toBe(true);
    expect(a.keeps.lines()).toBe(true);
    await a.ask(LEAD, { generation: 6, mode: "solo", boundMs: 0 });
    await systemClock.sleep(1_500);
    expect(a.keeps.lines()).toBe(true);
    a.files.forget("demo");
    await expect.poll(() => a.keeps.lines(), POLL).toBe(false);
    await b.ask(FORGET);
    expect(b.standbys.list()).toEqual([]);
    expect(existsSync(join(b.store, "standby", "demo"))).toBe(false);
    expect(b.isIdle()).toBe(true);
    expect(() => b.standbys.followEnd("demo")).toThrow("has no standby on this node");
  });
});
