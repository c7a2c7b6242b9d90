import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterAll, expect, test } from "vitest";
import { makeTestCertificate } from "../../testing/test-certificate.ts";
import type { PublicCertificate } from "./own-certificate.ts";
import { ShownCertificates, type CertificatePair } from "./shown-certificates.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-shown-cert-"));
const files = { certFile: join(dir, "server.crt"), keyFile: join(dir, "server.key") };
afterAll(() => rmSync(dir, { recursive: true }));

/** An authority whose certificate is renewed whenever somebody looks. */
function authority() {
  const listeners = new Set<(tls: PublicCertificate) => void>();
  let number = 1;
  const serverTls = (): PublicCertificate => ({
    certPem: `cluster ${number}`,
    keyPem: "key",
    fingerprint: `f${number}`,
  });
  return {
    caFile: "/pki/ca.crt",
    serverTls,
    onRotate: (listener: (tls: PublicCertificate) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    rotateIfDue: async () => {
      number++;
      for (const listener of listeners) listener(serverTls());
      return true;
    },
  };
}

function kept(certificates: ShownCertificates) {
  const shown: CertificatePair[] = [];
  let rotations = 0;
  const stop = certificates.keep({ setCertificates: (pair) => void shown.push(pair) }, () => rotations++);
  return { shown, rotations: () => rotations, stop };
}

test("without files of the operator clients and agents are shown the cluster's own, renewed every few hours", async () => {
  const clock = new FakeClock();
  const certificates = new ShownCertificates({
    pki: authority(),
    files: undefined,
    clock,
    log: silentLogger,
  });
  expect(certificates.caFile).toBe("/pki/ca.crt");
  const changes: string[] = [];
  certificates.onChange(({ fingerprint }) => changes.push(fingerprint));
  const { shown, rotations, stop } = kept(certificates);
  await clock.advance(12 * 3600_000);
  expect(shown.map(({ certificate, agentCertificate }) => [certificate.cert, agentCertificate.cert])).toEqual(
    [
      ["cluster 2", "cluster 2"],
      ["cluster 3", "cluster 3"],
    ],
  );
  expect([rotations(), changes]).toEqual([2, ["f2", "f3"]]);
  stop();
  await clock.advance(24 * 3600_000);
  expect(shown).toHaveLength(2);
});

test("the operator's is for clients alone, and is shown anew when it was replaced", async () => {
  const [first, second] = [await makeTestCertificate(), await makeTestCertificate()];
  const put = ({ cert, key }: { cert: string; key: string }): void => {
    writeFileSync(files.certFile, cert);
    writeFileSync(files.keyFile, key);
  };
  put(first);
  const clock = new FakeClock(Date.now());
  const certificates = new ShownCertificates({ pki: authority(), files, clock, log: silentLogger });
  expect([certificates.caFile, certificates.shown().certPem]).toEqual([files.certFile, first.cert]);
  const changes: string[] = [];
  certificates.onChange(({ certPem }) => changes.push(certPem));
  const { shown, rotations, stop } = kept(certificates);
  put(second);
  await clock.advance(10_000);
  expect(shown).toEqual([
    { certificate: { ...second }, agentCertificate: { cert: "cluster 1", key: "key" } },
  ]);
  expect([rotations(), changes]).toEqual([0, [second.cert]]);
  stop();
  put(first);
  await clock.advance(60_000);
  expect(shown).toHaveLength(1);
});
