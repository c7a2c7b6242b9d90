// server.tlsCertFile and server.tlsKeyFile: the operator's certificate for clients, the cluster's own for agents.
import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, test } from "vitest";
import { makeTestCertificate } from "@gpve/server/testing/test-certificate.ts";
import { exec } from "@gpve/kit/exec.ts";
import { apiOf, mainFile, nodeBinary, readCredentials } from "../support/gpve.ts";
import { startParts } from "../support/parts.ts";

test("is served, renewed while the server runs, and no matter of agents", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-own-"));
  const [tlsCertFile, tlsKeyFile] = [join(dir, "own.crt"), join(dir, "own.key")];
  const put = ({ cert, key }: { cert: string; key: string }): void => {
    writeFileSync(tlsKeyFile, key);
    writeFileSync(tlsCertFile, cert);
  };
  const [first, second] = [await makeTestCertificate(), await makeTestCertificate()];
  put(first);
  const parts = await startParts(undefined, { server: { server: { tlsCertFile, tlsKeyFile } } });
  try {
    const { url, fingerprint } = parts.credentials;
    expect(fingerprint).toBe(fingerprintOf(first.cert));
    expect(await shown(url, "http/1.1")).toBe(fingerprint);
    // The agent joined by the cluster's authority and calls it by that still.
    expect(await shown(url, "h2")).not.toBe(fingerprint);
    const ctl = await exec(nodeBinary, [
      "--disable-warning=ExperimentalWarning",
      mainFile,
      "ctl",
      "--data",
      parts.serverData,
      "node",
      "list",
    ]);
    expect(ctl.stdout).toMatch(/n1 +online/);

    // A key that is another's: the old pair goes on, and the log says why.
    writeFileSync(tlsKeyFile, second.key);
    await until(() => parts.server.output().includes("the old one is served on"));
    expect(parts.server.output()).toContain(`server.tlsKeyFile ${tlsKeyFile} is not the key of`);
    expect(await shown(url, "http/1.1")).toBe(fingerprint);

    put(second);
    await until(async () => (await shown(url, "http/1.1")) === fingerprintOf(second.cert));
    await until(() => readCredentials(parts.serverData).fingerprint === fingerprintOf(second.cert));
    const nodes = await apiOf(readCredentials(parts.serverData))("GET", "/nodes");
    expect(nodes.data).toMatchObject([{ node: "n1", status: "online" }]);
  } finally {
    await parts.stop();
    rmSync(dir, { recursive: true });
  }
});

function fingerprintOf(pem: string): string {
  return new X509Certificate(pem).fingerprint256;
}

function shown(url: string, protocol: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: hostname,
      port: Number(port),
      ALPNProtocols: [protocol],
      rejectUnauthorized: false,
    });
    socket.once("error", reject).once("secureConnect", () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
  });
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error("it never came to hold");
    await new Promise((done) => setTimeout(done, 250));
  }
}
