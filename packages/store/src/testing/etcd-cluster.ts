// Real etcd members on loopback, for tests. Needs the `etcd` program (Debian: etcd-server).
import { given } from "@gpve/contracts/given.ts";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { openEtcdStore } from "../etcd/etcd-store.ts";
import type { Store } from "../port.ts";
import { makeMemberNetwork } from "./member-network.ts";
import { makeTestCertificates } from "./test-certificates.ts";

export interface EtcdMember {
  readonly name: string;
  readonly url: string;
  /** kill -9. */
  kill(): Promise<void>;
  /** Starts it again on the same data. */
  start(): void;
  /** Stopped: the kernel keeps its connections, nothing answers. */
  pause(): void;
  resume(): void;
  /** From the other members only; clients still reach it. Needs `separate`. */
  cutOff(): Promise<void>;
  rejoin(): Promise<void>;
}

export interface EtcdCluster {
  readonly endpoints: readonly string[];
  readonly members: readonly EtcdMember[];
  /** PEM texts and their files, when started with TLS. */
  readonly tls?: {
    readonly ca: string;
    readonly cert: string;
    readonly key: string;
    readonly caFile: string;
    readonly certFile: string;
    readonly keyFile: string;
  };
  open(options?: { endpoints?: readonly string[]; deadlineMs?: number; attemptMs?: number }): Store;
  stop(): Promise<void>;
}

const binary = ["/usr/bin/etcd", "/usr/local/bin/etcd", "/usr/sbin/etcd"].find((path) => existsSync(path));

const MEMORY = "/dev/shm";

/** Why real-etcd tests cannot run here; undefined when they can. */
export const etcdMissing =
  binary === undefined ? "no etcd program found; install it with: apt-get install etcd-server" : undefined;

export interface EtcdClusterOptions {
  readonly members: number;
  readonly tls?: boolean;
  /** Each member in a network of its own, so that it can be cut off; see member-network.ts. Without TLS only. */
  readonly separate?: boolean;
}

export async function startEtcd(options: EtcdClusterOptions): Promise<EtcdCluster> {
  if (binary === undefined) throw new Error(etcdMissing);
  const network = options.separate === true ? await makeMemberNetwork(options.members) : undefined;
  // In memory: a disk that others write to at the same time costs members of half a second their leader.
  const dir = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "gpve-etcd-"));
  const scheme = options.tls === true ? "https" : "http";
  const tls = options.tls === true ? await writeCertificates(dir) : undefined;
  const ports = await freePorts(options.members * 2);
  const specs = Array.from({ length: options.members }, (_, i) => ({
    name: `m${i}`,
    client: `${scheme}://${network?.address(i) ?? "127.0.0.1"}:${ports[i * 2]}`,
    peer: `${scheme}://${network?.address(i) ?? "127.0.0.1"}:${ports[i * 2 + 1]}`,
  }));
  const initial = specs.map(({ name, peer }) => `${name}=${peer}`).join(",");
  const children: Child[] = [];
  const members = specs.map(({ name, client, peer }, index): EtcdMember => {
    let child: Child | undefined;
    const member: EtcdMember = {
      name,
      url: client,
      start() {
        const argv = [
          binary,
          `--name=${name}`,
          `--data-dir=${join(dir, name)}`,
          `--listen-client-urls=${client}`,
          `--advertise-client-urls=${client}`,
          `--listen-peer-urls=${peer}`,
          `--initial-advertise-peer-urls=${peer}`,
          `--initial-cluster=${initial}`,
          "--initial-cluster-token=gpve-test",
          "--initial-cluster-state=new",
          "--heartbeat-interval=50",
          "--election-timeout=500",
          "--logger=zap",
          "--log-level=error",
          ...Object.entries({ ...tls?.flags }).map(([flag, value]) => `--${flag}=${value}`),
        ];
        const [file = binary, ...args] = network?.inside(index, argv) ?? argv;
        child = startChild(file, args);
        children.push(child);
      },
      async kill() {
        await child?.stop();
      },
      pause: () => child?.signal("SIGSTOP"),
      resume: () => child?.signal("SIGCONT"),
      cutOff: async () => network?.cutOff(index),
      rejoin: async () => network?.rejoin(index),
    };
    member.start();
    return member;
  });
  const endpoints = specs.map(({ client }) => client);
  const open: EtcdCluster["open"] = (extra = {}) =>
    openEtcdStore({ endpoints, ...given({ tls: tls?.texts }), ...extra });
  const stop = async (): Promise<void> => {
    for (const child of children) await child.stop();
    await network?.remove();
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    for (const endpoint of endpoints) {
      const store = open({ endpoints: [endpoint], deadlineMs: 60_000 });
      await store.revision();
      await store.close();
    }
  } catch (err) {
    const said = children.map((child) => child.output()).join("\n");
    await stop();
    throw new Error(`etcd did not start: ${said}`, { cause: err });
  }
  return { endpoints, members, ...given({ tls: tls?.client }), open, stop };
}

async function writeCertificates(dir: string): Promise<{
  flags: Record<string, string>;
  texts: { ca: string; cert: string; key: string };
  client: NonNullable<EtcdCluster["tls"]>;
}> {
  const made = await makeTestCertificates();
  mkdirSync(dir, { recursive: true });
  const write = (name: string, text: string): string => {
    const file = join(dir, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  };
  const caFile = write("ca.pem", made.ca);
  const serverCert = write("server.pem", made.server.cert);
  const serverKey = write("server.key", made.server.key);
  const texts = { ca: made.ca, ...made.client };
  return {
    texts,
    client: {
      ...texts,
      caFile,
      certFile: write("client.pem", made.client.cert),
      keyFile: write("client.key", made.client.key),
    },
    flags: {
      "cert-file": serverCert,
      "key-file": serverKey,
      "trusted-ca-file": caFile,
      "client-cert-auth": "true",
      "peer-cert-file": serverCert,
      "peer-key-file": serverKey,
      "peer-trusted-ca-file": caFile,
      "peer-client-cert-auth": "true",
    },
  };
}

async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const server = createServer();
          server.listen(0, "127.0.0.1", () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => {
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  });
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
