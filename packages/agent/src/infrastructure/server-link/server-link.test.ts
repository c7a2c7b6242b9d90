// The line to a server that is not there. The rest of its life is in the server's contract test, on real sockets.
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { createAuthority, createKeyPair, issue } from "@gpve/kit/pki/x509.ts";
import { describe, expect, test } from "vitest";
import { ServerLink } from "./server-link.ts";

describe("the line to a server", () => {
  test("tries again and again, says why it is down, and stops when told", async () => {
    const ca = await createAuthority("c", systemClock.now());
    const pair = await createKeyPair();
    const request = {
      commonName: "n1",
      role: "gpve:agent" as const,
      days: 1,
      now: systemClock.now(),
    };
    const certPem = await issue(ca, pair.keys.publicKey, request);
    const warnings: unknown[] = [];
    const log: RequestLogger = {
      debug() {},
      info() {},
      warn: (fields) => warnings.push(fields["err"]),
      error() {},
    };
    const link = new ServerLink({
      onRefused: async () => undefined,
      endpoint: "https://127.0.0.1:1",
      node: "n1",
      address: "127.0.0.1",
      port: 1,
      agentVersion: "1",
      bootId: "b",
      clock: systemClock,
      log,
      identity: () => ({ caPem: ca.certPem, certPem, keyPem: pair.keyPem }),
      onIdentity: () => undefined,
      follow: () => Promise.reject(new Error("not asked for")),
    });
    link.start();
    await expect.poll(() => warnings.length, { timeout: 5_000 }).toBeGreaterThan(1);
    expect(warnings[0]).toMatch(/ECONNREFUSED/);
    expect(link.connected()).toBe(false);
    await link.close();
  });
});
