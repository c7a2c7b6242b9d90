import { createServer as createTlsServer } from "node:https";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { issueCertificate } from "@gpve/kit/pki/issue-certificate.ts";
import { createAuthority } from "@gpve/kit/pki/x509.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { ApiBalancer } from "./api-balancer.ts";
import { readinessAsker } from "./ask-readiness.ts";

const servers: Pick<Server, "close">[] = [];
const sockets = new Set<Socket>();
const balancers: ApiBalancer[] = [];

afterEach(() => {
  for (const balancer of balancers) balancer.close();
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
  servers.length = 0;
});

/** API servers at addresses of this machine's own; each answers with its name. */
async function replicaAt(host: string): Promise<Server> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("data", () => socket.write(`${host};`));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen({ host, port: 6443 }, resolve));
  return server;
}

async function balancerOf(own: string, ready: ReadonlySet<string>) {
  const balancer = new ApiBalancer({
    own,
    isReady: async ({ host }) => ready.has(host),
    clock: systemClock,
    lookMs: 20,
  });
  balancers.push(balancer);
  const port = await balancer.listen({ host: "127.0.0.1", port: 0 });
  const first = (): string | undefined => balancer.targets()[0]?.host;
  const ask = (): {
    readonly socket: Socket;
    readonly heard: () => string;
    readonly ended: Promise<void>;
  } => {
    const socket = connect({ host: "127.0.0.1", port }, () => socket.write("hello"));
    sockets.add(socket);
    let heard = "";
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString()));
    socket.on("error", () => socket.destroy());
    const ended = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    return { socket, heard: () => heard, ended };
  };
  return { first, ask };
}

describe("the way of workers to several replicas", () => {
  const [own, other, late] = ["127.45.0.3", "127.45.0.2", "127.45.0.9"] as const;

  test("leads to the one of this node while that serves, and else to one that does, whoever came to be one", async () => {
    for (const host of [own, other, late]) await replicaAt(host);
    const ready = new Set<string>([own, other]);
    const { first, ask } = await balancerOf(own, ready);
    await expect.poll(first).toBe(own);
    const here = ask();
    await expect.poll(here.heard).toBe(`${own};`);
    // Its API server is there, and says that it cannot serve: who is connected is to come again.
    ready.delete(own);
    await here.ended;
    await expect.poll(first).toBe(other);
    const there = ask();
    await expect.poll(there.heard).toBe(`${other};`);
    ready.delete(other);
    ready.add(late);
    await there.ended;
    await expect.poll(first).toBe(late);
    ready.add(own);
    await expect.poll(first).toBe(own);
  });

  test("leads past the one of this node in the moment in which it ends", async () => {
    const mine = await replicaAt(own);
    await replicaAt(other);
    const { first, ask } = await balancerOf(own, new Set([own, other]));
    await expect.poll(first).toBe(own);
    mine.close();
    const { heard } = ask();
    await expect.poll(heard).toBe(`${other};`);
  });

  test("ends where nobody serves", async () => {
    const { ask } = await balancerOf(own, new Set());
    const { heard, ended } = ask();
    await ended;
    expect(heard()).toBe("");
  });
});

describe("whether an API server is ready", () => {
  test("is what it says, where the cluster's authority vouches for it", async () => {
    const now = Date.now();
    const authority = await createAuthority("kubernetes-ca", now);
    const { certPem, keyPem } = await issueCertificate(authority, {
      commonName: "kube-apiserver",
      usage: "server",
      names: ["127.0.0.1"],
      now,
      lifetimeMs: 60_000,
    });
    let status = 200;
    const server = createTlsServer({ cert: certPem, key: keyPem }, (request, response) => {
      if (request.url === "/readyz" && status !== 0) response.writeHead(status).end("said");
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen({ host: "127.0.0.1", port: 0 }, resolve));
    const target = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
    const isReady = readinessAsker(authority.certPem, 200);
    expect(await isReady(target)).toBe(true);
    status = 500;
    expect(await isReady(target)).toBe(false);
    status = 0;
    expect(await isReady(target)).toBe(false);
    status = 200;
    expect(await isReady(target)).toBe(true);
    const stranger = await createAuthority("other", now);
    expect(await readinessAsker(stranger.certPem, 200)(target)).toBe(false);
    server.closeAllConnections();
  });
});
