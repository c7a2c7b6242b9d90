import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { etcdCertificates } from "@gpve/domain/vcluster/etcd.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { placeReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import { EtcdMembers, type JoiningMember } from "./etcd-members.ts";

interface Member {
  ID: string;
  name?: string;
  peerURLs: string[];
  isLearner?: boolean;
}

const nodes = placeReplicas(["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` })));
const url = (slot: number): string => `https://100.88.0.${2 + slot}:2380`;
/** Nobody waits in a test. */
const clock: Clock = { ...systemClock, sleep: () => new Promise((resolve) => setImmediate(resolve)) };
const { signal } = new AbortController();

let folder: string;
let keys: ClusterKeys;
let server: Server;
let members: Member[];
let refusals: number;
const asked: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-members-"));
  keys = new ClusterKeys(join(folder, "demo", "pki"), systemClock);
  await keys.ensure(etcdCertificates("127.0.0.1"));
  asked.length = 0;
  refusals = 0;
  members = [0, 1].map((slot) => ({ ID: `${slot}`, name: `member-${slot}`, peerURLs: [url(slot)] }));
  server = createServer(
    {
      ca: keys.read("etcd-ca.crt"),
      cert: keys.read("etcd.crt"),
      key: keys.read("etcd.key"),
      requestCert: true,
    },
    (request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const what = request.url?.split("/").at(-1) ?? "";
        const { ID, peerURLs = [] } = JSON.parse(body) as { ID?: string; peerURLs?: string[] };
        if (what !== "list") asked.push(`${what} ${ID ?? peerURLs.join()}`);
        if (what === "promote" && refusals-- > 0) {
          response.writeHead(400).end("can only promote a learner member which is in sync with leader");
          return;
        }
        if (what === "add") members.push({ ID: "new", peerURLs, isLearner: true });
        if (what === "remove") members = members.filter((each) => each.ID !== ID);
        if (what === "promote") for (const each of members) if (each.ID === ID) each.isLearner = false;
        response.writeHead(200).end(JSON.stringify({ members }));
      });
    },
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

function joining(slot: number, more: Partial<JoiningMember> = {}): JoiningMember & { started: string[] } {
  const started: string[] = [];
  const cluster: KeptCluster = {
    name: "demo",
    tenant: "shop",
    spec: { ...readVirtualClusterSpec({}), replicas: 3, backingStore: "etcd" },
    version: "1.36.4",
    phase: "Initializing",
    isWanted: true,
    overlay: { nodes, at: slot },
  };
  return {
    cluster,
    address: `100.88.0.${2 + slot}`,
    credentials: ({ address }) => ({
      // Of these the first does not answer.
      host: "127.0.0.1",
      port: address.endsWith(".2") ? 1 : (server.address() as AddressInfo).port,
      ca: keys.read("etcd-ca.crt"),
      cert: keys.read("apiserver-etcd-client.crt"),
      key: keys.read("apiserver-etcd-client.key"),
    }),
    start: async () => {
      started.push("etcd");
      for (const each of members) if (each.peerURLs[0] === url(slot)) each.name = `member-${slot}`;
    },
    ended: () => undefined,
    started,
    ...more,
  };
}

describe("an etcd that joins those of the other replicas", () => {
  test("comes in as a learner, gets its vote when it has all, and knows with whom it began", async () => {
    refusals = 2;
    const all = new EtcdMembers(folder, clock);
    const member = joining(2);
    await all.join(member, signal);
    expect(asked).toEqual([`add ${url(2)}`, "promote new", "promote new", "promote new"]);
    expect(member.started).toEqual(["etcd"]);
    expect(all.membership(member.cluster)).toEqual({
      name: "member-2",
      initialCluster: `member-0=${url(0)},member-1=${url(1)},member-2=${url(2)}`,
    });
    const { overlay: _none, ...alone } = member.cluster;
    expect(all.membership(alone)).toBeUndefined();
  });

  test("has the one removed whose place it takes", async () => {
    members.push({ ID: "7", name: "member-7", peerURLs: [url(7)] });
    await new EtcdMembers(folder, clock).join(joining(2), signal);
    expect(asked.slice(0, 2)).toEqual(["remove 7", `add ${url(2)}`]);
  });

  test("begins alone where it is the first, once", async () => {
    const all = new EtcdMembers(folder, clock);
    const first = joining(0);
    members = [{ ID: "0", name: "member-0", peerURLs: [url(0)] }];
    const cluster = { ...first.cluster, isFirst: true } as const;
    await all.join({ ...first, cluster }, signal);
    expect([first.started, asked]).toEqual([["etcd"], []]);
    expect(all.membership(cluster)).toEqual({ name: "member-0" });
    const note: unknown = JSON.parse(readFileSync(join(folder, "demo", "etcd-member.json"), "utf8"));
    expect(note).toEqual({ hasServed: true });
    // It has lost its data since: another store must not begin beside the first.
    members = [1, 2].map((slot) => ({ ID: `${slot}`, name: `member-${slot}`, peerURLs: [url(slot)] }));
    await all.join({ ...first, cluster }, signal);
    expect(asked[0]).toBe(`add ${url(0)}`);
  });

  test("goes on with what it has, and says what it said last where it ends", async () => {
    const wal = join(folder, "demo", "etcd", "member", "wal");
    mkdirSync(wal, { recursive: true });
    writeFileSync(join(wal, "0.wal"), "");
    members = [1].map((slot) => ({ ID: `${slot}`, name: `member-${slot}`, peerURLs: [url(slot)] }));
    const ended = () => "the member has been permanently removed from the cluster";
    const gone = new EtcdMembers(folder, clock).join(joining(2, { ended }), signal);
    await expect(gone).rejects.toThrow("ended: the member has been permanently removed");
  });

  test("waits for no longer than whoever asked for it", async () => {
    const stop = new AbortController();
    server.close();
    const waiting = new EtcdMembers(folder, systemClock).join(joining(2), stop.signal);
    stop.abort(new Error("cancelled"));
    await expect(waiting).rejects.toThrow();
  });
});
