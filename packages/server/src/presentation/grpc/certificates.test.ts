// Whom a certificate of the cluster speaks for: agents for their node, servers for themselves, and nobody for another;
// on real TLS sockets, and over a data directory from before agents had an authority of their own.
import "reflect-metadata";
import { X509Certificate, randomBytes, webcrypto } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { createClient } from "@connectrpc/connect";
import * as x509 from "@peculiar/x509";
import { IdentityStore, type AgentIdentity } from "@gpve/agent/infrastructure/server-link/identity.ts";
import { ServerLink } from "@gpve/agent/infrastructure/server-link/server-link.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import {
  createAuthority,
  createKeyPair,
  issue,
  loadPrivateKey,
  privateKeyPem,
  readCertificate,
  SERVER_ROLE,
} from "@gpve/kit/pki/x509.ts";
import type { Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { nodeRecords } from "../../application/node/collections.ts";
import { authorityRecords } from "../../infrastructure/pki/authorities.ts";
import { createSealer } from "../../infrastructure/secrets/sealer.ts";
import { openTestStore, quietLog, startAgentFace, type AgentFace } from "../../testing/agent-face.ts";
import { joinedNode } from "../../testing/joined-node.ts";

let dir = "";
const stores: Store[] = [];
const faces: AgentFace[] = [];
const servers: Http2SecureServer[] = [];
/** How far the servers' clock is ahead. */
let ahead = 0;
const clock = { ...systemClock, now: () => systemClock.now() + ahead };

async function face(name: string, before?: (store: Store, masterKey: Uint8Array) => Promise<void>) {
  const place = join(dir, name);
  mkdirSync(place);
  const store = await openTestStore(place);
  stores.push(store);
  const masterKey = randomBytes(32);
  await before?.(store, masterKey);
  const made = await startAgentFace({ dir: place, store, masterKey, clock });
  faces.push(made);
  return made;
}

/** Somebody who shows `identity` as his own on an address of his choice. */
async function impostor(identity: { certPem: string; keyPem: string }): Promise<string> {
  const tls = { cert: identity.certPem, key: identity.keyPem, allowHTTP1: true };
  const server = createSecureServer(tls, (_req, res) => res.end("{}"));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const ask = { method: "GET", path: "/", headers: {} } as const;

/** An agent's certificate as they were: from the one authority there was, with the addresses it asked for. */
async function oldAgent(
  ca: { certPem: string; key: webcrypto.CryptoKey },
  node: string,
): Promise<AgentIdentity> {
  const pair = await createKeyPair();
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: "4f",
      subject: [{ O: ["gpve:agent"] }, { CN: [node] }],
      issuer: new x509.X509Certificate(ca.certPem).subjectName,
      notBefore: new Date(Date.now() - 3_600_000),
      notAfter: new Date(Date.now() + 90 * 86_400_000),
      signingAlgorithm: algorithm,
      publicKey: pair.keys.publicKey,
      signingKey: ca.key,
      extensions: [
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        new x509.SubjectAlternativeNameExtension([
          { type: "dns", value: node },
          { type: "ip", value: "127.0.0.1" },
        ]),
      ],
    },
    webcrypto,
  );
  return { caPem: ca.certPem, certPem: certificate.toString("pem"), keyPem: pair.keyPem };
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "gpve-certificates-"));
});

afterAll(async () => {
  for (const server of servers) server.close();
  for (const each of faces) await each.close();
  for (const store of stores) await store.close();
  await rm(dir, { recursive: true, force: true });
});

describe("an agent's certificate", () => {
  let cluster: AgentFace;
  let agent: AgentIdentity;
  beforeAll(async () => {
    cluster = await face("fresh");
    agent = await cluster.joinAs("n1", "n1", "localhost");
  });

  test("carries node name and role, and no address", () => {
    const certificate = new X509Certificate(agent.certPem);
    expect(certificate.subject.split("\n").toSorted()).toEqual(["CN=n1", "O=gpve:agent"]);
    expect(certificate.subjectAltName).toBeUndefined();
    expect(certificate.checkHost("localhost")).toBeUndefined();
    expect(certificate.checkIP("127.0.0.1")).toBeUndefined();
  });

  test("is vouched for by nothing that clients are given to trust", async () => {
    const url = await impostor(agent);
    const foreign = new Promise((resolve, reject) => {
      const socket = connect(
        {
          host: "127.0.0.1",
          port: Number(new URL(url).port),
          ca: cluster.pki.caPem,
          checkServerIdentity: () => undefined,
        },
        () => resolve(undefined),
      );
      socket.on("error", reject);
    });
    await expect(foreign).rejects.toThrow(/unable to (get local issuer|verify)/);
    const ours = new NodeTransport({ url, ca: cluster.pki.caPem });
    await expect(ours.send(ask)).rejects.toThrow(/not trusted/);
    ours.close();
  });

  test("a server is still one for whoever verifies with pki/ca.crt", async () => {
    const transport = new NodeTransport({
      url: cluster.endpoint,
      ca: readFileSync(cluster.pki.caFile, "utf8"),
    });
    expect(await (await transport.send(ask)).text()).toBe("hello");
    transport.close();
  });

  test("opens nothing when another authority made it, whatever it says", async () => {
    const pretender = await oldAgent(await createAuthority("test agents CA", Date.now()), "n1");
    const channel = cluster.channelOf({ ...pretender, caPem: agent.caPem });
    const beat = createClient(ServerService, channel.transport).heartbeat({ node: "n1", sentAtMs: 0n });
    await expect(beat).rejects.toThrow(/needs the certificate/);
    channel.close();
  });
});

describe("over a data directory with one authority for all", () => {
  let cluster: AgentFace;
  let old: AgentIdentity;
  const before = { caPem: "", server: "" };
  beforeAll(async () => {
    cluster = await face("old", async (store, masterKey) => {
      const records = await openRecords(store, { prefix: "/gpve/", log: quietLog });
      const made = await createAuthority("test CA", Date.now());
      const keyPem = await privateKeyPem(made.key);
      const ca = { certPem: made.certPem, key: await loadPrivateKey(keyPem) };
      old = await oldAgent(ca, "veteran");
      const pair = await createKeyPair();
      const names = ["localhost", "127.0.0.1"];
      const server = await issue(ca, pair.keys.publicKey, {
        commonName: "localhost",
        role: SERVER_ROLE,
        names,
        days: 365,
        now: Date.now(),
      });
      before.caPem = ca.certPem;
      before.server = readCertificate(server).fingerprint;
      mkdirSync(join(dir, "old/pki"));
      writeFileSync(join(dir, "old/pki/ca.crt"), ca.certPem);
      writeFileSync(join(dir, "old/pki/server.crt"), server);
      writeFileSync(join(dir, "old/pki/server.key"), pair.keyPem);
      await records.transact((tx) => {
        const sealedKey = createSealer(masterKey).seal(keyPem, "pki/ca");
        tx.put(authorityRecords, "ca", { certPem: ca.certPem, sealedKey });
        tx.put(
          nodeRecords,
          "veteran",
          joinedNode("veteran", {
            certFingerprint: readCertificate(old.certPem).fingerprint,
            joinedAt: 1,
            labels: { rack: "a" },
          }),
        );
      });
      await records.close();
    });
  });

  test("what clients trust, and what the server shows, stays as it was", () => {
    expect(cluster.pki.caPem).toBe(before.caPem);
    expect(readFileSync(join(dir, "old/pki/ca.crt"), "utf8")).toBe(before.caPem);
    expect(cluster.pki.serverTls().fingerprint).toBe(before.server);
  });

  test("no client of ours, and no agent, takes an old agent for a server", async () => {
    const url = await impostor(old);
    const client = new NodeTransport({ url, ca: before.caPem });
    await expect(client.send(ask)).rejects.toThrow(/one of gpve:agent, not of a server/);
    client.close();
    const { token } = await cluster.membership.invite({ ttlMs: 60_000, createdBy: "root@pam" });
    const identities = new IdentityStore({ dir: join(dir, "careful"), clock: systemClock });
    const joining = { endpoint: url, token, node: "careful", address: "", port: 1, agentVersion: "1" };
    await expect(identities.join({ ...joining, caPem: before.caPem })).rejects.toThrow(/not a server's/);
  });

  test("an old agent goes on, gets a certificate of the new kind at once, and its old one ends", async () => {
    const fingerprint = (): string =>
      cluster.records.collection(nodeRecords).get("veteran")?.value.certFingerprint ?? "";
    const first = fingerprint();
    let identity = old;
    const link = new ServerLink({
      onRefused: async () => undefined,
      endpoint: cluster.endpoint,
      node: "veteran",
      address: "127.0.0.1",
      port: 1234,
      agentVersion: "1",
      bootId: "b",
      clock: systemClock,
      log: quietLog,
      identity: () => identity,
      onIdentity: (next) => (identity = next),
      follow: () => new Promise(() => undefined),
    });
    link.start();
    await vi.waitFor(() => expect(fingerprint()).not.toBe(first), { timeout: 30_000 });
    await vi.waitFor(() => expect(cluster.membership.member("veteran", first)).toBeUndefined(), {
      timeout: 30_000,
    });
    await link.close();
    expect(new X509Certificate(identity.certPem).subjectAltName).toBeUndefined();
    expect(new X509Certificate(identity.certPem).checkIssued(new X509Certificate(before.caPem))).toBe(false);
    expect(cluster.records.collection(nodeRecords).get("veteran")?.value).toMatchObject({
      nodeid: 1,
      joinedAt: 1,
      labels: { rack: "a" },
    });
    const channel = cluster.channelOf(old);
    const beat = createClient(ServerService, channel.transport).heartbeat({ node: "veteran", sentAtMs: 0n });
    await expect(beat).rejects.toThrow(/not a member/);
    channel.close();
  });

  test("the old authority's word for agents ends when the last of their certificates would have", () => {
    expect(cluster.pki.agentCaPems()).toHaveLength(2);
    ahead = 91 * 86_400_000;
    expect(cluster.pki.agentCaPems()).toHaveLength(1);
    ahead = 0;
    expect(faces[0]?.pki.agentCaPems()).toHaveLength(1);
  });
});
