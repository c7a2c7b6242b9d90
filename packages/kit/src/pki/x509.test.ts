import { describe, expect, test } from "vitest";
import {
  AGENT_ROLE,
  SERVER_ROLE,
  createAuthority,
  createKeyPair,
  createRequest,
  dueForRenewal,
  isPair,
  isSignedBy,
  issue,
  loadKeyPair,
  readCertificate,
  readRequest,
} from "./x509.ts";

const now = Date.UTC(2026, 5, 1);

describe("certificates", () => {
  test("an authority issues certificates that carry name, role and its signature", async () => {
    const ca = await createAuthority("c1", now);
    const other = await createAuthority("c2", now);
    const pair = await createKeyPair();
    const pem = await issue(ca, pair.keys.publicKey, {
      commonName: "n1",
      role: SERVER_ROLE,
      names: ["localhost", "127.0.0.1", "::1", "localhost"],
      days: 90,
      now,
    });
    expect(readCertificate(pem)).toMatchObject({ commonName: "n1", role: SERVER_ROLE });
    expect(readCertificate(pem).fingerprint).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/);
    expect(isSignedBy(pem, ca.certPem)).toBe(true);
    expect(isSignedBy(pem, other.certPem)).toBe(false);
    expect(await isPair(pem, pair)).toBe(true);
    expect(await isPair(pem, await createKeyPair())).toBe(false);
    expect(await isPair(pem, await loadKeyPair(pair.keyPem))).toBe(true);
  });

  test("a request proves the key and says nothing else", async () => {
    const ca = await createAuthority("c1", now);
    const pair = await createKeyPair();
    const request = await readRequest(await createRequest(pair, "somebody-else"));
    const again = await readRequest(await createRequest(pair, "x"));
    expect(again.keyFingerprint).toBe(request.keyFingerprint);
    const pem = await issue(ca, request.key, { commonName: "n2", role: AGENT_ROLE, days: 1, now });
    expect(readCertificate(pem)).toMatchObject({ commonName: "n2", role: AGENT_ROLE });
  });

  test("refuses garbage and stolen requests", async () => {
    await expect(readRequest("nonsense")).rejects.toThrow(/certificate request/);
    const good = await createRequest(await createKeyPair(), "a");
    const der = Buffer.from(good.replace(/-----[^-]+-----|\s/g, ""), "base64");
    der[der.length - 1] = (der[der.length - 1] ?? 0) ^ 1;
    const forged = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----`;
    await expect(readRequest(forged)).rejects.toThrow(/certificate request/);
    await expect(loadKeyPair("no key")).rejects.toThrow();
  });

  test("is due for renewal in the last third of its life", () => {
    const facts = { commonName: "", role: "", fingerprint: "", notBefore: 0, notAfter: 90 };
    expect(dueForRenewal(facts, 59)).toBe(false);
    expect(dueForRenewal(facts, 61)).toBe(true);
  });
});
