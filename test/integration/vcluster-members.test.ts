// The store of a control plane of several replicas, on real etcds: members join one by one, take the place of one that was
// lost, and come back with what they had or without. On addresses of the loopback; Kubernetes is in vcluster-replicas.test.ts.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ClusterKeys } from "@gpve/agent/infrastructure/vcluster/cluster-keys.ts";
import { EtcdMembers } from "@gpve/agent/infrastructure/vcluster/etcd-members.ts";
import { kubeCall, type KubeCredentials } from "@gpve/agent/infrastructure/vcluster/kube-api.ts";
import { ETCD_PORT, etcdCertificates, etcdCommand } from "@gpve/domain/vcluster/etcd.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { placeReplicas, withReplacement } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { cachedVersions, components } from "../support/vclusters.ts";

const [version = ""] = cachedVersions("etcd");
const program = join(components, "etcd", version, "etcd");
const canRun = version !== "" && existsSync(program);
if (!canRun)
  console.warn(
    "SKIPPED: members of a store need etcd in this machine's cache, which test/integration/vcluster-etcd.test.ts brings",
  );

/** Addresses that nobody else has. */
const subnet = `127.${20 + (process.pid % 200)}.${process.pid % 250}`;

describe.skipIf(!canRun)("the store of a control plane of three replicas", () => {
  const running = new Map<string, Child & { hasEnded?: true }>();
  const { signal } = new AbortController();
  let folder: string;
  let authority: Readonly<Record<string, string>>;
  let nodes = placeReplicas(["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` })));

  const keysOf = (node: string): ClusterKeys =>
    new ClusterKeys(join(folder, node, "demo", "pki"), systemClock);
  const addressOf = (node: string): string =>
    `${subnet}.${2 + (nodes.find((each) => each.node === node)?.slot ?? 0)}`;
  const credentials = (
    node: string,
    at: { readonly address: string; readonly port: number },
  ): KubeCredentials => {
    const keys = keysOf(node);
    const [ca, cert, key] = ["etcd-ca.crt", "apiserver-etcd-client.crt", "apiserver-etcd-client.key"];
    const file = (name: string | undefined): string => keys.read(name ?? "");
    return { host: at.address, port: at.port, ca: file(ca), cert: file(cert), key: file(key) };
  };

  /** As an agent does it: resolves when it is a member with a vote. */
  const bring = async (node: string, isFirst = false): Promise<void> => {
    const address = addressOf(node);
    const keys = keysOf(node);
    keys.takeAuthority(authority);
    await keys.ensure(etcdCertificates(address));
    const members = new EtcdMembers(join(folder, node), systemClock);
    const cluster: KeptCluster = {
      name: "demo",
      tenant: "default",
      spec: readVirtualClusterSpec({ controlPlane: { tier: "Enterprise" } }),
      version: "1.36.4",
      phase: "Initializing",
      isWanted: true,
      overlay: { nodes, at: nodes.findIndex((each) => each.node === node) },
      ...(isFirst ? { isFirst: true } : {}),
    };
    const start = async (): Promise<void> => {
      const dataFolder = join(folder, node, "demo", "etcd");
      mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
      const member = members.membership(cluster) ?? { name: "none" };
      const { args } = etcdCommand({ address, pki: keys.file, dataFolder, member });
      const child: Child & { hasEnded?: true } = startChild(program, args);
      void child.exited.then(() => (child.hasEnded = true));
      running.set(node, child);
    };
    const ended = (): string | undefined => {
      const child = running.get(node);
      return child?.hasEnded === true ? child.output() : undefined;
    };
    const own = (at: { readonly address: string; readonly port: number }) => credentials(node, at);
    await members.join({ cluster, address, credentials: own, start, ended }, signal);
  };
  const kill = async (node: string): Promise<void> => running.get(node)?.stop();
  const call = async (node: string, path: string, body: unknown): Promise<string> => {
    const at = credentials(node, { address: addressOf(node), port: ETCD_PORT });
    try {
      const answer = await kubeCall(at, { method: "POST", path, body }, signal);
      return answer.status === 200 ? answer.body : `${answer.status} ${answer.body}`;
    } catch (err) {
      return String(err);
    }
  };
  const voters = async (node: string): Promise<readonly string[]> => {
    const { members } = JSON.parse(await call(node, "/v3/cluster/member/list", {})) as {
      members: readonly { readonly name: string; readonly isLearner?: boolean }[];
    };
    return members.flatMap(({ name, isLearner }) => (isLearner === true ? [] : name)).toSorted();
  };
  /** What is written through one is read through the others; until then somebody has to be elected. */
  const expectWritten = async (by: string, word: string, readers: readonly string[]): Promise<void> => {
    const [key, value] = [btoa("word"), btoa(word)];
    const began = performance.now();
    const write = (): Promise<string> => call(by, "/v3/kv/put", { key, value });
    await expect.poll(write, { timeout: 120_000 }).toContain("revision");
    console.info(`'${word}' was written after ${Math.round(performance.now() - began)} ms`);
    for (const reader of readers)
      await expect.poll(() => call(reader, "/v3/kv/range", { key }), { timeout: 120_000 }).toContain(value);
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-members-"));
    authority = await keysOf("a").authority("replica");
  });
  afterAll(async () => {
    for (const node of running.keys()) await kill(node);
    rmSync(folder, { recursive: true, force: true });
  });

  test("is of three members that came one by one, whoever was first at the door", async () => {
    await Promise.all([bring("c"), bring("b"), bring("a", true)]);
    expect(await voters("b")).toEqual(["member-0", "member-1", "member-2"]);
    await expectWritten("c", "whole", ["a", "b"]);
  });

  test("goes on without one of them, and takes in whoever comes in its place", async () => {
    await kill("a");
    await expectWritten("b", "one is lost", ["c"]);
    nodes = withReplacement(nodes, "a", { node: "d", address: "192.0.2.4" });
    await bring("d");
    expect(await voters("c")).toEqual(["member-1", "member-2", "member-3"]);
    await expectWritten("d", "whole again", ["b", "c"]);
  });

  test("has who comes back with what it had as before, and who has lost it anew", async () => {
    await kill("b");
    await expectWritten("c", "b is away", ["d"]);
    await bring("b");
    await expectWritten("b", "b is back", ["c", "d"]);
    await kill("b");
    rmSync(join(folder, "b", "demo", "etcd"), { recursive: true });
    await bring("b");
    expect(await voters("d")).toEqual(["member-1", "member-2", "member-3"]);
    await expectWritten("b", "b has all", ["c", "d"]);
  });
});
