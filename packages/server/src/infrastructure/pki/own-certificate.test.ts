import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { X509Certificate } from "node:crypto";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { makeTestCertificate } from "../../testing/test-certificate.ts";
import type { Certificate } from "../../presentation/listener/listener.ts";
import { OwnCertificate, readOwnCertificate } from "./own-certificate.ts";

const DAY_MS = 86_400_000;
const dir = mkdtempSync(join(tmpdir(), "gpve-own-cert-"));
const files = { certFile: join(dir, "server.crt"), keyFile: join(dir, "server.key") };
afterAll(() => rmSync(dir, { recursive: true }));

let [first, second]: Certificate[] = [];
beforeAll(async () => {
  [first, second] = [await makeTestCertificate(), await makeTestCertificate()];
});
const put = (cert: string, key: string): void => {
  writeFileSync(files.certFile, cert);
  writeFileSync(files.keyFile, key);
};
const pem = (of: Certificate | undefined): Certificate => of ?? { cert: "", key: "" };
beforeEach(() => put(pem(first).cert, pem(first).key));

test("refuses what cannot be served, by key, file and reason", () => {
  const read = (now = Date.now()) => readOwnCertificate(files, now);
  expect(read().fingerprint).toBe(new X509Certificate(pem(first).cert).fingerprint256);
  put(pem(first).cert, pem(second).key);
  expect(read).toThrow(
    `server.tlsKeyFile ${files.keyFile} is not the key of the first certificate in server.tlsCertFile ${files.certFile}: name the two files that belong together`,
  );
  put("nonsense", pem(first).key);
  expect(read).toThrow(/tlsCertFile .* holds no certificate in PEM form/);
  put(pem(first).cert, "nonsense");
  expect(read).toThrow(/tlsKeyFile .* holds no private key/);
  put(pem(first).cert, pem(first).key);
  expect(() => read(Date.now() + 2 * DAY_MS)).toThrow(/ended on .*: put a renewed certificate there/);
  expect(() => read(Date.now() - DAY_MS)).toThrow(/begins only on .*clock/);
  rmSync(files.keyFile);
  expect(read).toThrow(/cannot read server.tlsKeyFile .*ENOENT/);
});

test("takes a renewed pair by itself, and goes on with the old one where the new one is bad", async () => {
  const clock = new FakeClock(Date.now());
  const told: string[] = [];
  const log = {
    info: (_fields: object, message: string) => told.push(message),
    error: (_fields: object, message: string) => told.push(message),
  };
  const own = new OwnCertificate({ files, clock, log });
  const seen: string[] = [];
  own.onChange(({ fingerprint }) => seen.push(fingerprint));
  own.watch();
  await clock.advance(20_000);
  expect([seen, told]).toEqual([[], []]);

  // Half of a renewal: told only when it stays so, and once.
  writeFileSync(files.certFile, pem(second).cert);
  await clock.advance(5_000);
  expect(told).toEqual([]);
  await clock.advance(30_000);
  expect(told).toEqual([expect.stringMatching(/is not the key of .*; the old one is served on$/)]);
  expect(own.current().certPem).toBe(pem(first).cert);

  writeFileSync(files.keyFile, pem(second).key);
  await clock.advance(5_000);
  expect(seen).toEqual([new X509Certificate(pem(second).cert).fingerprint256]);
  expect(own.current().keyPem).toBe(pem(second).key);

  own.close();
  put(pem(first).cert, pem(first).key);
  await clock.advance(30_000);
  expect(seen).toHaveLength(1);
});
