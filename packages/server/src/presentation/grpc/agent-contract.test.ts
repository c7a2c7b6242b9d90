// Both ends of the agent contract on real TLS sockets: join, hello, heartbeats, reports, calls, renewal.
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAgent } from "@gpve/agent/application/agent.ts";
import { createReporter } from "@gpve/agent/application/report/reporter.ts";
import { IdentityStore, fetchAuthority } from "@gpve/agent/infrastructure/server-link/identity.ts";
import { ServerLink } from "@gpve/agent/infrastructure/server-link/server-link.ts";
import { listenForServers, type AgentListener } from "@gpve/agent/presentation/grpc/listener.ts";
import { createClient } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentService } from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import type { GuestRuntime, NodeFacts, NodeReport } from "@gpve/domain/node/runtime.ts";
import type { AccessView, RequestLogger } from "@gpve/domain/request/context.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel } from "@gpve/kit/grpc/channel.ts";
import { createKeyPair, createRequest, readCertificate } from "@gpve/kit/pki/x509.ts";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { MemoryNodeBoard } from "../../application/node/board.ts";
import { nodeRecords } from "../../application/node/collections.ts";
import { GuestMoves } from "../../application/node/guest-moves.ts";
import { Membership } from "../../application/node/membership.ts";
import { StorageSecrets } from "../../application/storage/storage-secrets.ts";
import { StorageDefinitions } from "../../application/storage/storage-definitions.ts";
import { GrpcAgent, type GrpcAgentOptions } from "../../infrastructure/agent-client/grpc-agent.ts";
import { LocalAgent } from "../../infrastructure/agent-client/local-agent.ts";
import { ClusterPki } from "../../infrastructure/pki/cluster-pki.ts";
import { createSealer } from "../../infrastructure/secrets/sealer.ts";
import {
  agentCall,
  agentConnectionConformance,
  conformanceHandlers,
} from "../../testing/agent-connection-conformance.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { createServerGrpcHandler } from "./handler.ts";
import { peerReader } from "./peer.ts";

const quiet: RequestLogger = { debug() {}, info() {}, warn() {}, error() {} };
const nobody: AccessView = {
  privileges: () => new Map(),
  has: () => false,
  require: () => {
    throw new AppError("access.denied", "no");
  },
};
const forever = new AbortController().signal;
const usage = { cpu: 0.5, memory: { total: 1 } } as NodeReport["usage"];

let dir = "";
/** How far the server's clock is ahead, to bring certificates near their end. */
let ahead = 0;
let server: Http2SecureServer;
let endpoint = "";
let pki: ClusterPki;
let membership: Membership;
let board: MemoryNodeBoard;
let stopBoard = (): void => undefined;
const records = new MemoryRecords();
const sealer = createSealer(randomBytes(32));
const identities = (name: string): IdentityStore =>
  new IdentityStore({ dir: join(dir, name), clock: systemClock });
const joinAs = async (node: string, token: string, store = node) =>
  identities(store).join({ endpoint, token, node, address: "127.0.0.1", port: 1234, agentVersion: "1" });
const invite = async (node?: string): Promise<string> => {
  const options = { ttlMs: 60_000, createdBy: "root@pam" };
  return (await membership.invite(node === undefined ? options : { ...options, node })).token;
};

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "gpve-contract-"));
  pki = await ClusterPki.open({
    records,
    sealer,
    clock: systemClock,
    dir: join(dir, "pki"),
    clusterName: "test",
    names: ["localhost", "127.0.0.1"],
  });
  membership = new Membership({
    records,
    clock: systemClock,
    board: { get: (node) => board.get(node) },
    issuer: pki,
    random: (n) => randomBytes(n),
    serves: async () => false,
  });
  const tls = pki.serverTls();
  server = createSecureServer({
    key: tls.keyPem,
    cert: tls.certPem,
    ca: [...pki.agentCaPems()],
    requestCert: true,
    rejectUnauthorized: false,
  });
  serveFromNothing();
  server.on("sessionError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

/** As a server that has just been started: it knows the records, and of no agent how it is. */
function serveFromNothing(): void {
  stopBoard();
  board = new MemoryNodeBoard({ clock: systemClock, nodes: records.collection(nodeRecords) });
  stopBoard = board.start();
  const handler = createServerGrpcHandler({
    membership,
    moves: new GuestMoves({ records, clock: systemClock }),
    storageSecrets: new StorageSecrets(records, sealer),
    board,
    clock: { ...systemClock, now: () => systemClock.now() + ahead },
    log: quiet,
    serverVersion: "1",
    clusterName: "test",
    readPeer: peerReader({ agentCaPems: () => pki.agentCaPems(), now: () => systemClock.now() + ahead }),
    storeRoutes: () => undefined,
    forServers: undefined,
    heartbeatIntervalMs: 50,
    reportIntervalMs: 50,
  });
  server.removeAllListeners("request");
  server.on("request", handler);
}

afterAll(async () => {
  stopBoard();
  server.close();
  await rm(dir, { recursive: true, force: true });
});

describe("joining", () => {
  test("a token works once, but its owner may repeat the join", async () => {
    const token = await invite();
    const identity = await joinAs("once", token);
    expect((await identities("once").load("once"))?.certPem.trim()).toBe(identity.certPem.trim());
    expect(await identities("once").load("other")).toBeUndefined();
    expect((await stat(join(dir, "once/agent.pem"))).mode & 0o777).toBe(0o600);
    await joinAs("once", token);
    await expect(joinAs("thief", token)).rejects.toThrow(/unknown, used or expired/);
  });

  test("refuses forged, foreign and expired tokens, names in use and bad names", async () => {
    const token = await invite();
    await expect(joinAs("x1", token.replace(/\.[^.]{43}\./, `.${"A".repeat(43)}.`))).rejects.toThrow(
      /unknown, used/,
    );
    await expect(joinAs("x1", `${token.slice(0, -4)}0000`)).rejects.toThrow(/CA fingerprint differs/);
    await expect(joinAs("x1", "nonsense")).rejects.toThrow(/not a join token/);
    await expect(joinAs("once", await invite(), "x2")).rejects.toThrow(/already in the cluster/);
    const late = { ...systemClock, now: () => systemClock.now() - 300_000 };
    const slow = new IdentityStore({ dir: join(dir, "x3"), clock: late });
    const at = { endpoint, address: "127.0.0.1", port: 1234, agentVersion: "1" };
    await expect(slow.join({ ...at, node: "x3", token: await invite() })).rejects.toThrow(
      /clock of node x3 is 300 s behind this server's .*join again/,
    );
    await expect(joinAs("a.b", await invite())).rejects.toThrow(/not a valid node name/);
    await expect(joinAs("x3", await invite("x4"))).rejects.toThrow(/for node x4/);
    const old = await membership.invite({ ttlMs: -1, createdBy: "root@pam" });
    await expect(joinAs("x5", old.token)).rejects.toThrow(/expired/);
    await expect(fetchAuthority("https://127.0.0.1:1", "")).rejects.toThrow(/cannot reach/);
  });

  test("a node is told the passwords of its own storages, and of no others", async () => {
    const definitions = new StorageDefinitions(records, "/var/lib/gpve", new StorageSecrets(records, sealer));
    const share = { server: "nas", share: "vms", username: "u", password: "geheim" };
    await definitions.create("ours", "cifs", { ...share, nodes: "keeper" });
    await definitions.create("theirs", "cifs", { ...share, nodes: "another" });
    expect(JSON.stringify(definitions.definitions())).not.toContain("geheim");
    const clientOf = async (node: string) => {
      const identity = await joinAs(node, await invite());
      const channel = createChannel({ url: endpoint, tls: identity, clock: systemClock });
      return { ...createClient(ServerService, channel.transport), close: () => channel.close() };
    };
    const keeper = await clientOf("keeper");
    const ask = { storage: "ours", name: "password" };
    expect((await keeper.storageSecret(ask)).value).toBe("geheim");
    expect((await keeper.storageSecret({ ...ask, name: "keyring" })).value).toBeUndefined();
    await expect(keeper.storageSecret({ ...ask, storage: "theirs" })).rejects.toThrow(
      "is not one of node keeper's",
    );
    await expect(keeper.storageSecret({ ...ask, storage: "none" })).rejects.toThrow("is not one of node");
    await definitions.update("ours", { set: { password: "neu" }, delete: undefined, digest: undefined });
    expect((await keeper.storageSecret(ask)).value).toBe("neu");
    await definitions.update("ours", { set: {}, delete: "password", digest: undefined });
    expect((await keeper.storageSecret(ask)).value).toBeUndefined();
    await definitions.remove("theirs");
    keeper.close();
  });

  test("a request of more than 64 KiB is refused unread, while a report may be larger", async () => {
    const identity = await joinAs("large", await invite());
    const channel = createChannel({ url: endpoint, tls: identity, clock: systemClock });
    const client = createClient(ServerService, channel.transport);
    const padding = "x".repeat(64 * 1024);
    const text = (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => "taken",
        (err: unknown) => String(err),
      );
    expect(await text(client.join({ token: "t", node: "large", csrPem: padding }))).toMatch(
      /resource_exhausted/,
    );
    expect(await text(client.report({ reportJson: JSON.stringify({ node: "large", padding }) }))).toMatch(
      /no report of a node: guests is no list|no report of a node: usage/,
    );
    channel.close();
  });

  test("a token for exactly one node lets it take its own place", async () => {
    await joinAs("phoenix", await invite());
    await joinAs("phoenix", await invite("phoenix"), "phoenix-2");
    expect(records.collection(nodeRecords).get("phoenix")?.version).toBe(2);
  });

  test("a stranger's certificate and a foreign node name open nothing", async () => {
    const identity = await joinAs("honest", await invite());
    const anonymous = createChannel({ url: endpoint, tls: { caPem: pki.caPem }, clock: systemClock });
    const honest = createChannel({ url: endpoint, tls: identity, clock: systemClock });
    const fails = async (work: Promise<unknown>): Promise<string | undefined> =>
      work.then(
        () => undefined,
        (err: unknown) => appErrorOf(err)?.code,
      );
    const beat = { node: "honest", sentAtMs: 0n };
    expect(await fails(createClient(ServerService, anonymous.transport).heartbeat(beat))).toBe(
      "auth.required",
    );
    const client = createClient(ServerService, honest.transport);
    expect(await fails(client.heartbeat(beat))).toBeUndefined();
    expect(await fails(client.heartbeat({ node: "once", sentAtMs: 0n }))).toBe("access.denied");
    const hello = { node: "honest", address: "127.0.0.1", port: 1, agentVersion: "0", bootId: "" };
    expect(await fails(client.hello({ ...hello, protocol: { min: 7, max: 9 } }))).toBe("feature.unsupported");
    expect(board.get("honest")?.software).toMatchObject({
      version: "0",
      refused: "agent speaks protocol 7-9, this server at most 4: upgrade the server",
    });
    expect(await fails(client.hello(hello))).toBe("request.invalid");
    const older = await client.hello({ ...hello, protocol: { min: 1, max: 3 } });
    expect(older.protocol).toBe(3);
    expect(board.get("honest")?.software).toEqual({ version: "0", serverVersion: "1", protocol: 3 });
    expect(await fails(client.report({ reportJson: "{" }))).toBe("request.invalid");
    const usage = { cpu: 0, memory: { total: 1 } };
    const report = { node: "honest", at: 0, usage, guests: [], storages: [], more: "[[]]" };
    const reportJson = JSON.stringify(report);
    expect(await fails(client.report({ reportJson }))).toBeUndefined();
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    expect(await fails(client.report({ reportJson: reportJson.replace('"[[]]"', deep) }))).toBe(
      "request.invalid",
    );
    await membership.remove("honest");
    expect(await fails(client.heartbeat(beat))).toBe("access.denied");
    await expect(membership.remove("honest")).rejects.toThrow(/no such node/);
    anonymous.close();
    honest.close();
  });
});

describe("a joined node", () => {
  let listener: AgentListener;
  let link: ServerLink;
  let remote: GrpcAgent;
  let guests: readonly GuestRuntime[] = [];
  const reporter = createReporter({
    node: "n1",
    agentVersion: "1",
    clock: systemClock,
    usage: () => Promise.resolve(usage),
    facts: () => ({ facts: { hostname: "h1" } as NodeFacts, generation: 1 }),
    guests: () => guests,
    running: () => guests.map(({ vmid }) => vmid).join(),
    storages: async () => [],
    ends: () => [],
    vclusters: () => [],
    standbys: () => [],
    defaults: () => ({}),
  });
  const agent = createAgent({
    node: "n1",
    handlers: [conformanceHandlers],
    validate: (_route, params) => params,
    accessOf: () => nobody,
    logFor: () => quiet,
  });
  const agentAt = (options: Partial<GrpcAgentOptions>): GrpcAgent =>
    new GrpcAgent({
      node: "n1",
      address: "127.0.0.1",
      port: listener.port,
      tls: pki.towardsAgents(),
      isCurrent: () => true,
      isAwaited: () => false,
      clock: systemClock,
      ...options,
    });

  beforeAll(async () => {
    const store = identities("n1");
    let identity = await joinAs("n1", await invite());
    listener = await listenForServers({ agent, address: "127.0.0.1", port: 0, tls: identity });
    link = new ServerLink({
      onRefused: async () => undefined,
      endpoint,
      node: "n1",
      address: "127.0.0.1",
      port: listener.port,
      agentVersion: "1",
      bootId: "b",
      clock: systemClock,
      log: quiet,
      identity: () => identity,
      onIdentity: (next) => {
        identity = store.save(next);
        listener.setTls(identity);
      },
      follow: (send, options) => reporter.follow(send, options),
    });
    link.start();
    remote = agentAt({
      isCurrent: (fingerprint) => membership.member("n1", fingerprint) !== undefined,
    });
  });

  afterAll(async () => {
    remote.close();
    await link.close();
    await listener.close();
  });

  test("shows on the board and tells its port", async () => {
    await vi.waitFor(() => expect(board.get("n1")?.report?.usage.cpu).toBe(0.5), { timeout: 30_000 });
    expect(board.get("n1")?.health).toBe("online");
    expect(link.connected()).toBe(true);
    expect(records.collection(nodeRecords).get("n1")?.value.port).toBe(listener.port);
  });

  test("says hello again to a server that was started anew between two heartbeats", async () => {
    serveFromNothing();
    await vi.waitFor(
      () =>
        expect(board.get("n1")).toMatchObject({ health: "online", software: { version: "1", protocol: 4 } }),
      { timeout: 30_000 },
    );
    const before = board.get("n1")?.report;
    await vi.waitFor(() => expect(board.get("n1")?.report).not.toBe(before), { timeout: 30_000 });
  });

  test("has told its servers of a guest when it says so", async () => {
    const running = (): number[] => board.get("n1")?.report?.guests.map(({ vmid }) => vmid) ?? [];
    for (let vmid = 100; vmid < 110; vmid++) {
      guests = [...guests, { vmid, type: "qemu", status: "running" } as GuestRuntime];
      await reporter.told();
      expect(running()).toContain(vmid);
    }
    guests = [];
    await reporter.told();
    expect(running()).toEqual([]);
  });

  agentConnectionConformance("over gRPC", () => remote);
  agentConnectionConformance("in one process", () => new LocalAgent(agent));

  test("a call that takes too long ends with 596", async () => {
    const hurried = agentAt({ timeoutMs: 1_000 });
    await expect(hurried.call(agentCall("GET /nodes/{node}/report"), forever)).rejects.toMatchObject({
      status: 596,
    });
    hurried.close();
  });

  test("a call waits for an agent that said goodbye, and what was under way is ended", async () => {
    const tls = await identities("n1").load("n1");
    if (tls === undefined) throw new Error("n1 has joined");
    const slow = Promise.withResolvers<{ data: string }>();
    const begun = Promise.withResolvers<undefined>();
    const slowAgent = {
      node: "n1",
      call: () => {
        begun.resolve(undefined);
        return slow.promise;
      },
    };
    const leaving = await listenForServers({ agent: slowAgent, address: "127.0.0.1", port: 0, tls });
    const { port } = leaving;
    const patient = agentAt({ port, isAwaited: () => board.isAwaited("n1") });
    const underWay = patient.call(agentCall("POST /nodes/{node}/status"), forever);
    await begun.promise;
    await link.goodbye();
    expect(board.isAwaited("n1")).toBe(true);
    const closed = leaving.close();
    slow.resolve({ data: "done" });
    expect((await underWay).data).toBe("done");
    await closed;
    const waiting = patient.call(agentCall("GET /nodes/{node}/version"), forever);
    const back = await listenForServers({ agent, address: "127.0.0.1", port, tls });
    expect((await waiting).data).toMatchObject({ version: "9" });
    board.hello("n1", { version: "1", serverVersion: "1", protocol: 4 });
    await back.close();
    await expect(patient.call(agentCall("GET /nodes/{node}/version"), forever)).rejects.toMatchObject({
      status: 595,
    });
    patient.close();
  });

  test("unary calls and tunnels answer too", async () => {
    const channel = createChannel({
      url: `https://127.0.0.1:${listener.port}`,
      tls: pki.towardsAgents(),
      clock: systemClock,
      acceptPeer: () => undefined,
    });
    const client = createClient(AgentService, channel.transport);
    const base = { requestId: "r", clientAddress: "::1", paramsJson: '{"node":"n1"}' };
    const asked = (route: string) => ({ ...base, route, decision: { route, judged: { node: "n1" } } });
    const answer = await client.call(asked("GET /nodes/{node}/version"));
    expect(JSON.parse(answer.head?.dataJson ?? "")).toMatchObject({ version: "9" });
    const log = client.call(asked("GET /nodes/{node}/tasks/{upid}/log"));
    await expect(log).rejects.toThrow(/CallStream/);
    await expect(client.call({ ...asked("x"), paramsJson: "[]" })).rejects.toThrow(/not an object/);
    await expect(client.call({ ...asked("x"), paramsJson: "{" })).rejects.toThrow(/not JSON/);
    const tunnel = client.tunnel(
      (async function* () {
        yield await Promise.resolve({ part: { case: "open" as const, value: { target: "vnc" } } });
      })(),
    );
    await expect(tunnel[Symbol.asyncIterator]().next()).rejects.toThrow(/carries no decision/);
    channel.close();
  });

  test("is not reachable for agents, nor under another name, nor when nobody listens", async () => {
    const wrong = agentAt({ node: "n2" });
    await expect(wrong.call(agentCall("GET /nodes/{node}/version"), forever)).rejects.toMatchObject({
      status: 596,
    });
    const other = await joinAs("spy", await invite());
    const spy = agentAt({ tls: { ...other, caPem: pki.towardsAgents().caPem } });
    await expect(spy.call(agentCall("GET /nodes/{node}/version"), forever)).rejects.toMatchObject({
      status: 596,
    });
    const replaced = agentAt({ isCurrent: () => false });
    await expect(replaced.call(agentCall("GET /nodes/{node}/version"), forever)).rejects.toThrow(
      /replaced or revoked/,
    );
    replaced.close();
    const none = agentAt({ port: 1 });
    await expect(none.call(agentCall("GET /nodes/{node}/version"), forever)).rejects.toMatchObject({
      status: 595,
      message: "Connection refused",
    });
    for (const agentTo of [wrong, spy, none]) agentTo.close();
  });

  test("renews its certificate when a server says so, and goes on with the new one", async () => {
    const fingerprint = (): string | undefined =>
      records.collection(nodeRecords).get("n1")?.value.certFingerprint;
    const before = fingerprint();
    ahead = 70 * 86_400_000;
    await vi.waitFor(() => expect(fingerprint()).not.toBe(before), { timeout: 30_000 });
    ahead = 0;
    await vi.waitFor(() => expect(link.connected()).toBe(true), { timeout: 30_000 });
    await vi.waitFor(
      async () => {
        const stored = await identities("n1").load("n1");
        expect(stored === undefined ? undefined : readCertificate(stored.certPem).fingerprint).toBe(
          fingerprint(),
        );
      },
      { timeout: 30_000 },
    );
    expect((await remote.call(agentCall("GET /nodes/{node}/version"), forever)).data).toMatchObject({
      version: "9",
    });
  });

  test("a renewed certificate is used, and the old one dies once the new one was seen", async () => {
    const before = records.collection(nodeRecords).get("n1")?.value.certFingerprint ?? "";
    const csr = await createRequest(await createKeyPair(), "n1");
    await membership.renew("n1", before, csr);
    expect(membership.member("n1", before)).toBeDefined();
    const after = records.collection(nodeRecords).get("n1")?.value.certFingerprint ?? "";
    await membership.hello("n1", after, "127.0.0.1", listener.port);
    expect(membership.member("n1", before)).toBeUndefined();
    await expect(membership.renew("n1", before, csr)).rejects.toThrow(/not a member/);
  });
});

describe("the server's own certificate", () => {
  test("survives a restart, and is replaced when names change or its end is near", async () => {
    const deps = {
      records,
      sealer,
      clock: systemClock,
      dir: join(dir, "pki"),
      clusterName: "test",
      names: ["localhost", "127.0.0.1"],
    };
    const again = await ClusterPki.open(deps);
    expect(again.serverTls().fingerprint).toBe(pki.serverTls().fingerprint);
    expect(again.caFingerprint).toBe(pki.caFingerprint);
    expect(await again.rotateIfDue()).toBe(false);
    const renamed = await ClusterPki.open({ ...deps, names: ["localhost", "10.9.8.7", "host.example"] });
    expect(renamed.serverTls().fingerprint).not.toBe(pki.serverTls().fingerprint);
    expect(renamed.caFingerprint).toBe(pki.caFingerprint);
    let now = systemClock.now();
    const later = await ClusterPki.open({ ...deps, clock: { ...systemClock, now: () => now } });
    const rotated: string[] = [];
    const stop = later.onRotate((tls) => rotated.push(tls.fingerprint));
    now += 300 * 86_400_000;
    expect(await later.rotateIfDue()).toBe(true);
    expect(rotated).toEqual([later.serverTls().fingerprint]);
    stop();
  });
});
