// An etcd that is nobody's of ours: with TLS, at an address that network namespaces reach.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { kubeCall } from "@gpve/agent/infrastructure/vcluster/kube-api.ts";
import { exec } from "@gpve/kit/exec.ts";
import { issueCertificate } from "@gpve/kit/pki/issue-certificate.ts";
import { createAuthority } from "@gpve/kit/pki/x509.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { expect, vi } from "vitest";
import { components } from "./vclusters.ts";

const PORT = 23_790;

export interface PemSet {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export class ForeignEtcd {
  readonly url: string;
  readonly client: PemSet;
  readonly #child: Child;
  readonly #device: string;

  private constructor(parts: { url: string; client: PemSet; child: Child; device: string }) {
    this.url = parts.url;
    this.client = parts.client;
    this.#child = parts.child;
    this.#device = parts.device;
  }

  /** Its files go into `folder`. */
  static async start(folder: string): Promise<ForeignEtcd> {
    const device = `gpvee${process.pid % 100_000}`;
    const address = `198.18.${(process.pid >> 8) % 256}.${1 + (process.pid % 254)}`;
    await exec("ip", ["link", "add", "name", device, "type", "bridge"]);
    await exec("ip", ["address", "add", `${address}/32`, "dev", device]);
    await exec("ip", ["link", "set", "dev", device, "up"]);
    const own = join(folder, "foreign-etcd");
    mkdirSync(own, { recursive: true, mode: 0o700 });
    const now = Date.now();
    const authority = await createAuthority("foreign", now);
    const issue = (commonName: string, usage: "both" | "client", names: readonly string[]) =>
      issueCertificate(authority, { commonName, usage, names, now, lifetimeMs: 3_600_000 });
    const server = await issue("etcd", "both", [address]);
    const { certPem, keyPem } = await issue("client", "client", []);
    const write = (name: string, text: string): string => {
      writeFileSync(join(own, name), text, { mode: 0o600 });
      return join(own, name);
    };
    const url = `https://${address}:${PORT}`;
    const peer = `http://127.0.0.1:${PORT + 1}`;
    const child = startChild(etcdProgram() ?? "etcd", [
      `--data-dir=${join(own, "data")}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
      "--client-cert-auth=true",
      `--trusted-ca-file=${write("ca.crt", authority.certPem)}`,
      `--cert-file=${write("server.crt", server.certPem)}`,
      `--key-file=${write("server.key", server.keyPem)}`,
      "--log-level=error",
    ]);
    const client = { ca: authority.certPem, cert: certPem, key: keyPem };
    const etcd = new ForeignEtcd({ url, client, child, device });
    await vi.waitFor(async () => expect(await etcd.#answers()).toBe(true), {
      timeout: 180_000,
      interval: 100,
    });
    return etcd;
  }

  /** Names of all that is in it. */
  async keys(): Promise<readonly string[]> {
    const base64 = (text: string): string => Buffer.from(text).toString("base64");
    const body = { key: base64("/"), range_end: base64("0"), keys_only: true };
    const answer = await this.#call("POST", "/v3/kv/range", body);
    const { kvs = [] } = JSON.parse(answer.body) as { kvs?: { key: string }[] };
    return kvs.map(({ key }) => Buffer.from(key, "base64").toString());
  }

  async put(key: string, value: string): Promise<void> {
    const base64 = (text: string): string => Buffer.from(text).toString("base64");
    const { status, body } = await this.#call("POST", "/v3/kv/put", {
      key: base64(key),
      value: base64(value),
    });
    expect(status, body).toBe(200);
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await exec("ip", ["link", "delete", "dev", this.#device], { okCodes: [0, 1] });
  }

  #answers(): Promise<boolean> {
    return this.#call("GET", "/health").then(
      ({ status }) => status === 200,
      () => false,
    );
  }

  #call(method: string, path: string, body?: unknown) {
    const { hostname, port } = new URL(this.url);
    const to = { host: hostname, port: Number(port), ...this.client };
    return kubeCall(to, { method, path, body }, AbortSignal.timeout(5_000));
  }
}

/** Of this machine's cache, else Debian's; undefined = there is none. */
export function etcdProgram(): string | undefined {
  const cached = join(components, "etcd");
  const versions = existsSync(cached) ? readdirSync(cached) : [];
  const known = [...versions.map((version) => join(cached, version, "etcd")), "/usr/bin/etcd"];
  return known.find((path) => existsSync(path));
}
