import { X509Certificate } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import {
  AGENT_ROLE,
  createAuthority,
  createKeyPair,
  issue,
  SERVER_ROLE,
  type CertificateAuthority,
} from "@gpve/kit/pki/x509.ts";
import { peerReader } from "./peer.ts";

const NOW = Date.now();
let authority: CertificateAuthority;
beforeAll(async () => {
  authority = await createAuthority("one for all", NOW);
});

async function shown(role: typeof AGENT_ROLE | typeof SERVER_ROLE, by = authority) {
  const { keys } = await createKeyPair();
  const pem = await issue(by, keys.publicKey, { commonName: "n1", days: 1, now: NOW, names: [], role });
  return { getPeerX509Certificate: () => new X509Certificate(pem) };
}

test("an agent is who has an agent's certificate: one authority may have vouched for servers too", async () => {
  const read = peerReader({ agentCaPems: () => [authority.certPem], now: () => NOW + 1_000 });
  expect(read(await shown(AGENT_ROLE))).toMatchObject({ node: "n1" });
  expect(read(await shown(SERVER_ROLE))).toBeUndefined();
  expect(read(await shown(AGENT_ROLE, await createAuthority("another", NOW)))).toBeUndefined();
  expect(read({ getPeerX509Certificate: () => undefined })).toBeUndefined();
  expect(read({})).toBeUndefined();
});

test("a certificate counts in its time, also on a connection that lasts longer", async () => {
  let now = NOW + 1_000;
  const read = peerReader({ agentCaPems: () => [authority.certPem], now: () => now });
  const socket = await shown(AGENT_ROLE);
  expect(read(socket)).toBeDefined();
  now += 2 * 86_400_000;
  expect(read(socket)).toBeUndefined();
});
