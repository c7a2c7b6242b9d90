// Who may stay on the agent's port: servers. Everybody else has a number of connections and a time.
import { connect as connectH2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import {
  AGENT_ROLE,
  createAuthority,
  createKeyPair,
  issue,
  privateKeyPem,
  SERVER_ROLE,
  type CertificateAuthority,
} from "@gpve/kit/pki/x509.ts";
import { listenForServers, STRANGER_LIMITS, type AgentListener, type ListenerTls } from "./listener.ts";

const agent = new FakeAgent();
const silent = () => undefined;

let authority: CertificateAuthority;
let tls: { readonly agent: ListenerTls; readonly server: ListenerTls };
let listener: AgentListener;
const open: { destroy(): void }[] = [];

async function identity(role: typeof AGENT_ROLE | typeof SERVER_ROLE): Promise<ListenerTls> {
  const pair = await createKeyPair();
  const request = { commonName: "n1", days: 1, now: Date.now(), names: ["127.0.0.1"] };
  const certPem = await issue(authority, pair.keys.publicKey, { ...request, role });
  return { caPem: authority.certPem, certPem, keyPem: await privateKeyPem(pair.keys.privateKey) };
}

const listen = async (limits: Partial<typeof STRANGER_LIMITS>): Promise<void> => {
  const strangers = { ...STRANGER_LIMITS, ...limits };
  listener = await listenForServers({ agent, address: "127.0.0.1", port: 0, tls: tls.agent, strangers });
};

beforeAll(async () => {
  authority = await createAuthority("test", Date.now());
  tls = { agent: await identity(AGENT_ROLE), server: await identity(SERVER_ROLE) };
});
afterEach(async () => {
  for (const each of open.splice(0)) each.destroy();
  await listener.close();
});

function dial(bytes = ""): { readonly socket: Socket; readonly closed: Promise<number> } {
  const socket = connectTcp(listener.port, "127.0.0.1").on("error", silent);
  open.push(socket);
  socket.write(bytes);
  socket.resume();
  const begun = Date.now();
  return {
    socket,
    closed: new Promise((resolve) => socket.once("close", () => resolve(Date.now() - begun))),
  };
}

/** An h2 session whose certificate was taken. */
async function session(as: ListenerTls) {
  const made = connectH2(`https://127.0.0.1:${listener.port}`, {
    ca: as.caPem,
    cert: as.certPem,
    key: as.keyPem,
    checkServerIdentity: silent,
  });
  made.on("error", silent);
  open.push(made);
  await new Promise((resolve) => made.once("remoteSettings", resolve));
  return made;
}

describe("the agent's port", () => {
  test.each([
    ["says nothing", ""],
    ["never finishes its handshake", "\x16\x03\x01\x02\x00\x01"],
  ])("ends whoever %s, however it trickles in", async (_name, bytes) => {
    await listen({ handshakeMs: 400 });
    const { socket, closed } = dial(bytes);
    const drip = setInterval(() => bytes !== "" && socket.write("\0"), 50);
    expect(await closed).toBeLessThan(10_000);
    clearInterval(drip);
  });

  test("ends another node in time, whose certificate is good, and keeps a server", async () => {
    await listen({ handshakeMs: 1_500 });
    const server = await session(tls.server);
    const node = await session(tls.agent);
    await new Promise((resolve) => node.once("close", resolve));
    await new Promise<void>((resolve, reject) =>
      server.ping((err) => (err === null ? resolve() : reject(err))),
    );
    expect(server.closed).toBe(false);
  });

  test("lets an address have so many connections of strangers; servers are none", async () => {
    await listen({ perAddress: 2, graceMs: 0 });
    const server = await session(tls.server);
    const first = dial();
    dial();
    dial();
    await first.closed;
    await new Promise<void>((resolve, reject) =>
      server.ping((err) => (err === null ? resolve() : reject(err))),
    );
    expect(server.closed).toBe(false);
  });
});
