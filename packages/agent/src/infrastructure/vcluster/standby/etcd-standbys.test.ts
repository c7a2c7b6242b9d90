// Two nodes, with members of an etcd that are played: what is asked of them, and what is done with their processes and data. Sockets,
// files and the line are real; real members are in test/integration/vcluster-etcd-standby.test.ts.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:https";
import { type AddressInfo, connect, type Server as SocketServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { GuestProcess, GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { type PairMember, pairStart } from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import type { KeptStandby, StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { issueCertificate } from "@gpve/kit/pki/issue-certificate.ts";
import { createAuthority } from "@gpve/kit/pki/x509.ts";
import { heardLog } from "../../../testing/heard-log.ts";
import type { EtcdFollowersDeps } from "./etcd-followers.ts";
import { EtcdFollowers } from "./etcd-followers.ts";
import { EtcdLeads, type EtcdProcess } from "./etcd-leads.ts";
import { EtcdPairFiles, requireOwn } from "./etcd-pair-files.ts";
import { StandbyHosts } from "./standby-hosts.ts";

const POLL = { timeout: 30_000, interval: 100 };
const uid = process.getuid?.() ?? 0;
const spec = readVirtualClusterSpec({ controlPlane: { tier: "Performance" } });
const cluster: KeptCluster = {
  name: "perf",
  tenant: "shop",
  spec,
  version: "1.36.4",
  etcdVersion: "3.6.8",
  network: 3,
  phase: "Running",
  isWanted: true,
};
const standby = (generation: number): KeptStandby => ({
  name: "perf",
  tenant: "shop",
  spec,
  version: "1.36.4",
  etcdVersion: "3.6.8",
  generation,
  secrets: {},
});

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-etcd-standbys-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  rmSync(folder, { recursive: true, force: true });
});

/** The member of the control plane, as far as it is asked. */
class PlayedEtcd {
  readonly asked: string[] = [];
  members: PairMember[] = [{ id: "1", peerUrls: ["unix://first:0"], isLearner: false }];
  leader = "1";
  answers = true;
  mayPromote = true;
  server: Server | undefined;
  pems = { ca: "", cert: "", key: "" };

  async start(): Promise<void> {
    const now = Date.now();
    const authority = await createAuthority("etcd", now);
    const asked = {
      commonName: "etcd",
      usage: "both",
      names: ["127.0.0.1"],
      now,
      lifetimeMs: 3_600_000,
    } as const;
    const { certPem: cert, keyPem: key } = await issueCertificate(authority, asked);
    this.pems = { ca: authority.certPem, cert, key };
    const made = createServer({ ...this.pems }, (request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const answer = this.answers ? this.#answer(request.url ?? "", body) : undefined;
        response.writeHead(answer === undefined ? 503 : 200).end(JSON.stringify(answer ?? {}));
      });
    });
    this.server = made;
    closing.push(() => made.close());
    await new Promise<void>((listening) => made.listen(0, "127.0.0.1", listening));
  }

  get credentials() {
    const { port } = (this.server?.address() ?? { port: 0 }) as AddressInfo;
    return { host: "127.0.0.1", port, ...this.pems };
  }

  #answer(url: string, body: string): object | undefined {
    const said = JSON.parse(body) as { ID?: string; peerURLs?: string[] };
    const what = url.slice(url.lastIndexOf("/") + 1);
    if (what === "status") return { header: { member_id: "1", revision: "9" }, leader: this.leader };
    if (what === "list")
      return {
        members: this.members.map(({ id, peerUrls, isLearner }) => ({
          ID: id,
          peerURLs: peerUrls,
          isLearner,
        })),
      };
    this.asked.push(`${what} ${said.ID ?? said.peerURLs?.join()}`);
    if (what === "add") this.members.push({ id: "2", peerUrls: said.peerURLs ?? [], isLearner: true });
    if (what === "remove") this.members = this.members.filter(({ id }) => id !== said.ID);
    if (what === "promote" && !this.mayPromote) return undefined;
    if (what === "promote")
      this.members = this.members.map((each) => (each.id === said.ID ? { ...each, isLearner: false } : each));
    if (what === "update")
      this.members = this.members.map((each) =>
        each.id === said.ID ? { ...each, peerUrls: said.peerURLs ?? [] } : each,
      );
    return {};
  }
}

/** Processes of followers: whoever is started has data, and a socket at which it is asked. */
class PlayedProcesses {
  readonly started: GuestStart[] = [];
  readonly transfers: string[] = [];
  #running: { server: SocketServer } | undefined;
  breaks = false;

  async start(start: GuestStart): Promise<GuestProcess> {
    if (this.breaks) throw new Error("no room");
    this.started.push(start);
    const [data = "", peers = ""] = start.files.map(({ path }) => path);
    mkdirSync(join(data, "member", "wal"), { recursive: true });
    const server = createHttp((request, response) => {
      if (request.url?.endsWith("transfer-leadership") === true) this.transfers.push(request.url);
      response.end(JSON.stringify({ header: { member_id: "2" }, leader: "2" }));
    });
    await new Promise<void>((listening) => server.listen(join(peers, "client:0"), listening));
    this.#running = { server };
    closing.push(() => server.close());
    return this.get() as unknown as GuestProcess;
  }

  get() {
    if (this.#running === undefined) return undefined;
    return { uid, hasExited: false, stop: async () => this.end(), kill: async () => this.end() };
  }

  end(): void {
    this.#running?.server.close();
    this.#running = undefined;
  }

  async forget(): Promise<void> {}

  lastWords(): string {
    return "";
  }
}

async function world() {
  const { log } = heardLog();
  const etcd = new PlayedEtcd();
  await etcd.start();
  const [a, b] = [join(folder, "a"), join(folder, "b")];
  const files = new EtcdPairFiles(join(a, "clusters"));
  const processes = new PlayedProcesses();
  const runs: { now: EtcdProcess | undefined } = { now: { uid, alone: undefined, isFrozen: false } };
  const restarts: (number | undefined)[] = [];
  /** As the process does it: a socket of its own name, and no other member where it is to go on alone. */
  const listen = async (): Promise<void> => {
    const { peers, name, alone } = await files.prepare("perf");
    writeFileSync(join(peers, `${name}:0`), "");
    restarts.push(alone);
    runs.now = { uid, alone, isFrozen: false };
    if (alone === undefined) return;
    etcd.members = etcd.members.filter(({ id }) => id === "1");
    etcd.answers = true;
  };
  const leads = new EtcdLeads({
    folder: a,
    files,
    clusters: () => [cluster],
    process: () => runs.now,
    restart: () => listen(),
    credentials: () => etcd.credentials,
    clock: systemClock,
    log,
  });
  const followers = new EtcdFollowers({
    folder: b,
    files: new EtcdPairFiles(join(b, "clusters")),
    processes: processes as unknown as EtcdFollowersDeps["processes"],
    components: { program: (name, version) => `/components/${name}/${version}/etcd` },
    clock: systemClock,
    log,
  });
  mkdirSync(join(a, "lines"), { recursive: true });
  await listen();
  restarts.length = 0;
  closing.push(
    () => leads.close(),
    () => followers.close(),
  );
  const open = new Set<Socket>();
  const line = (): void => {
    const ends = [connect(leads.leadEnd("perf").path), connect(followers.followEnd("perf").path)] as const;
    ends[0].pipe(ends[1]).pipe(ends[0]);
    for (const end of ends) {
      open.add(end);
      end.on("error", () => end.destroy());
      end.on("close", () => {
        for (const each of ends) each.destroy();
        open.delete(end);
      });
    }
  };
  const cut = (): void => {
    for (const each of open) each.destroy();
  };
  closing.push(cut);
  const state = () => leads.state("perf");
  const look = async (): Promise<ReturnType<typeof state>> => {
    await leads.look();
    return state();
  };
  /** Until it is so, with a line as agents keep it. */
  const until = (expected: object): Promise<void> =>
    expect
      .poll(async () => {
        if (leads.wantedLines().length > 0 && open.size === 0) line();
        return look();
      }, POLL)
      .toMatchObject(expected);
  const begin = async (generation: number): Promise<void> => {
    await followers.follow(standby(generation));
    leads.lead("perf", { generation, mode: "stream", boundMs: 0 });
    await until({ generation, isJoined: true, isConnected: true });
  };
  return {
    a,
    b,
    etcd,
    files,
    processes,
    runs,
    restarts,
    leads,
    followers,
    line,
    cut,
    look,
    state,
    until,
    begin,
  };
}

describe("the standby of an etcd", () => {
  test("is added as a learner, started without a network, and gets a vote when it has all", async () => {
    const { etcd, processes, files, leads, followers, until, look, b } = await world();
    etcd.mayPromote = false;
    await followers.follow(standby(7));
    leads.lead("perf", { generation: 7, mode: "stream", boundMs: 0 });
    await until({ generation: 7, isJoined: false, isConnected: true });
    await expect.poll(async () => (await look(), processes.started.length), POLL).toBe(1);
    const [started] = processes.started;
    expect(started).toMatchObject({
      id: "perf.standby",
      program: "/components/etcd/3.6.8/etcd",
      workFolder: join(b, "standbys", "perf", "peers"),
    });
    expect([started?.network, started?.hostNetwork]).toEqual([undefined, undefined]);
    expect(started?.args).toEqual(
      expect.arrayContaining(["--name=s7", "--initial-cluster=first=unix://first:0,s7=unix://s7:0"]),
    );
    etcd.mayPromote = true;
    await until({ isJoined: true, isConnected: true, revision: 9, confirmed: 9 });
    expect(files.note("perf")).toMatchObject({ shared: 7, hasVote: true });
    expect(() => requireOwn(join(folder, "a", "clusters"), "perf")).toThrow("try again");
  });

  test("is told as one that is not there when its line is cut, or nobody leads", async () => {
    const { etcd, cut, look, begin, until, leads, runs } = await world();
    await begin(7);
    cut();
    await expect.poll(look, POLL).toMatchObject({ isJoined: true, isConnected: false });
    await until({ isJoined: true, isConnected: true });
    etcd.leader = "0";
    await until({ isJoined: true, isConnected: false });
    // One that has been started again and waits for it says nothing at all.
    etcd.answers = false;
    await until({ isJoined: true, isConnected: false });
    etcd.leader = "1";
    // One that sleeps stands still, and its standby has all that it has.
    runs.now = { uid, alone: undefined, isFrozen: true };
    await until({ isJoined: true, isConnected: true });
    runs.now = undefined;
    await expect.poll(look, POLL).toBeUndefined();
    expect(leads.wantedLines()).toEqual([]);
  });

  test("is gone on without when a server says so, and another one begins anew", async () => {
    const { etcd, restarts, files, leads, begin, until, cut, followers } = await world();
    await begin(7);
    cut();
    etcd.answers = false;
    leads.lead("perf", { generation: 8, mode: "solo", boundMs: 0 });
    expect(leads.wantedLines()).toEqual([]);
    await until({ generation: 8, isJoined: false, isConnected: false });
    expect(restarts).toEqual([7]);
    expect(files.note("perf").shared).toBeUndefined();
    expect(() => requireOwn(join(folder, "a", "clusters"), "perf")).not.toThrow();
    expect(() => leads.lead("perf", { generation: 7, mode: "stream", boundMs: 0 })).toThrow("is older than");
    await begin(9);
    expect(etcd.asked.at(-2)).toBe("add unix://s9:0");
    // One that was given up in silence is got rid of first.
    await followers.follow(standby(11));
    leads.lead("perf", { generation: 11, mode: "stream", boundMs: 0 });
    await until({ generation: 11, isJoined: true, isConnected: true });
    expect(restarts).toEqual([7, 9]);
  });

  test("leads nothing: that is the member of the control plane's", async () => {
    const { etcd, processes, begin, look } = await world();
    await begin(7);
    etcd.leader = "2";
    await expect.poll(async () => (await look(), processes.transfers.length), POLL).toBe(1);
  });

  test("is not begun anew where what it has confirmed is gone", async () => {
    const { begin, processes, b, until } = await world();
    await begin(7);
    processes.end();
    rmSync(join(b, "standbys", "perf", "etcd"), { recursive: true });
    await until({ isJoined: true, isConnected: false });
    expect(processes.started).toHaveLength(1);
  });

  test("is started again where it has ended, and told where it cannot be", async () => {
    const { begin, processes, look } = await world();
    await begin(7);
    processes.end();
    processes.breaks = true;
    await expect.poll(look, POLL).toMatchObject({ isConnected: false });
    processes.breaks = false;
    await expect.poll(async () => (await look(), processes.started.length), POLL).toBe(2);
  });

  test("of a control plane that came from elsewhere finds that by its socket", async () => {
    const { etcd, begin, files } = await world();
    etcd.members = [{ id: "1", peerUrls: ["https://100.80.0.2:2380"], isLearner: false }];
    await begin(7);
    expect(etcd.asked).toEqual(["update 1", "add unix://s7:0", "promote 2"]);
    files.exchanged("perf");
    expect(
      pairStart({ ...files.note("perf"), wish: { generation: 8, mode: "solo", boundMs: 0 } }).alone,
    ).toBe(7);
  });

  test("goes on as the etcd of a cluster of its node, and leaves nothing where it was", async () => {
    const { begin, followers, processes, b, leads } = await world();
    await begin(7);
    await followers.unfollow("perf");
    expect(processes.get()).toBeUndefined();
    expect(readdirSync(join(b, "lines"))).toEqual([]);
    followers.adopt(standby(7));
    expect(existsSync(join(b, "clusters", "perf", "etcd", "member", "wal"))).toBe(true);
    const there = new EtcdPairFiles(join(b, "clusters"));
    expect(pairStart(there.note("perf"))).toEqual({ name: "s7", alone: 7 });
    // Done again there is nothing left to do.
    followers.adopt(standby(7));
    there.settle("perf");
    expect(pairStart(there.note("perf"))).toEqual({ name: "s7" });
    there.forget("perf");
    expect(there.note("perf")).toEqual({});
    leads.close();
    expect(readdirSync(join(folder, "a", "lines"))).toEqual([]);
  });
});

describe("standbys of a node", () => {
  test("are those of databases and of etcds, each kept by its own", async () => {
    const { leads, followers, look, files } = await world();
    const said: string[] = [];
    const kept = new Map<string, KeptStandby>([["perf", standby(7)]]);
    kept.set("small", { ...standby(5), name: "small", spec: readVirtualClusterSpec({}) });
    const note = (what: string) => (name: string) => void said.push(`${what} ${name}`);
    const databases = {
      lead: note("lead"),
      adopt: note("adopt"),
      state: note("state"),
      save: () => said.push("save"),
      leadEnd: note("leadEnd"),
      followEnd: note("followEnd"),
      keepProcess: async () => true,
      isFed: () => true,
      hasLeads: () => true,
      wantedLines: () => [{ name: "small", generation: 5 }],
      list: () => [...kept.values()],
      get: (name: string) => kept.get(name),
      follow: async (name: string) => void said.push(`follow ${name}`),
      unfollow: async (name: string) => void said.push(`unfollow ${name}`),
      remove: async (name: string) => void said.push(`remove ${name}`),
    } as unknown as StandbyHost;
    const storeOf = (name: string) => (name === "perf" ? "etcd" : "sqlite");
    const all = new StandbyHosts({ databases, leads, followers, storeOf });
    const wish = { generation: 7, mode: "stream", boundMs: 0 } as const;
    for (const name of ["perf", "small"]) {
      all.lead(name, wish);
      all.state(name);
      all.leadEnd(name);
      await all.follow(name);
      all.followEnd(name);
      await all.unfollow(name);
      all.adopt(name);
      await all.remove(name);
    }
    all.save(standby(7));
    expect(said).toEqual([
      "remove perf",
      ...["lead", "state", "leadEnd", "follow", "followEnd", "unfollow", "adopt", "remove"].map(
        (what) => `${what} small`,
      ),
      "save",
    ]);
    // What an etcd hears of its leader nobody tells.
    expect([all.isFed("small"), all.isFed("perf"), all.hasLeads()]).toEqual([true, false, true]);
    expect([await all.keepProcess(), all.list().length, files.note("perf").wish]).toEqual([true, 2, wish]);
    await expect.poll(look, POLL).toBeDefined();
    expect(all.wantedLines().map(({ name }) => name)).toEqual(["small", "perf"]);
  });
});
