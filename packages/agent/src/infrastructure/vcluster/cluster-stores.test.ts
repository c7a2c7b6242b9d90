import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import { etcdCertificates } from "@gpve/domain/vcluster/etcd.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import { ClusterStores, EXTERNAL_KEYS } from "./cluster-stores.ts";

/** Loopback, which a spec would not take, is where a test can listen. */
const ADDRESS = "127.0.0.1";
const { signal } = new AbortController();
const never = { start: async () => undefined, ended: () => undefined, alone: () => undefined };

let folder: string;
let keys: ClusterKeys;
let server: Server | undefined;
const asked: string[] = [];
const sqlite: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-stores-"));
  keys = new ClusterKeys(join(folder, "demo", "pki"), systemClock);
  await keys.ensure([
    ...controlPlaneCertificates({
      serviceCidr: "10.96.0.0/16",
      dnsDomain: "cluster.local",
      address: ADDRESS,
      alsoKnownAs: [],
    }),
    ...etcdCertificates(ADDRESS),
  ]);
  keys.take(EXTERNAL_KEYS.ca, keys.read("etcd-ca.crt"));
  keys.take(EXTERNAL_KEYS.cert, keys.read("apiserver-etcd-client.crt"));
  keys.take(EXTERNAL_KEYS.key, keys.read("apiserver-etcd-client.key"));
  asked.length = 0;
  sqlite.length = 0;
});
afterEach(() => {
  server?.close();
  server = undefined;
  rmSync(folder, { recursive: true, force: true });
});

function stores(): ClusterStores {
  const note = (what: string) => async (name: string | number) => void sqlite.push(`${what} ${name}`);
  return new ClusterStores({
    folder,
    sqlite: {
      serve: note("serve"),
      leave: note("leave"),
      remove: note("remove"),
      stopIfIdle: note("idle"),
      ensure: async () => {
        sqlite.push("ensure");
        throw new Error("no room for a process");
      },
      socket: (name) => `/sock/${name}/etcd.sock`,
      socketFolder: (name) => `/sock/${name}`,
    },
    components: { program: (name, version) => `/components/${name}/${version}/etcd` },
    clock: systemClock,
  });
}

function kept(control: object): KeptCluster {
  return {
    name: "demo",
    tenant: "shop",
    spec: { ...readVirtualClusterSpec({}), ...control },
    version: "1.36.4",
    etcdVersion: "3.6.8",
    phase: "Running",
    isWanted: true,
  };
}

/** An etcd as far as it is asked: whoever has no certificate of its authority is not answered. */
async function fakeEtcd(health: string, status = 200): Promise<string> {
  const made = createServer(
    {
      ca: keys.read("etcd-ca.crt"),
      cert: keys.read("etcd.crt"),
      key: keys.read("etcd.key"),
      requestCert: true,
      rejectUnauthorized: true,
    },
    (request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        asked.push(`${request.method} ${request.url} ${body}`);
        response.writeHead(status).end(request.url === "/health" ? health : "{}");
      });
    },
  );
  server = made;
  await new Promise<void>((resolve) => made.listen(0, ADDRESS, resolve));
  return `https://${ADDRESS}:${(made.address() as AddressInfo).port}`;
}

describe("stores of virtual clusters", () => {
  test("a database is served by the process of all, through a socket", async () => {
    const cluster = kept({ backingStore: "sqlite" });
    const place = { cluster, keys, address: ADDRESS };
    await stores().serve(place, signal, never);
    await stores().leave(cluster);
    await stores().remove(place, () => undefined);
    await stores().stopIfIdle([kept({ backingStore: "etcd" })]);
    expect(sqlite).toEqual(["serve demo", "leave demo", "remove demo", "idle 0"]);
    expect(stores().access(place)).toEqual({ servers: ["unix:///sock/demo/etcd.sock"] });
    expect(stores().files(cluster)).toMatchObject([{ path: "/sock/demo", access: "ro" }]);
  });

  test("an etcd of its own is a process with a folder of its own", async () => {
    const cluster = kept({ backingStore: "etcd" });
    const place = { cluster, keys, address: "100.80.0.2" };
    const { program, dataFolder, args } = await stores().etcd(place);
    expect([program, existsSync(dataFolder)]).toEqual(["/components/etcd/3.6.8/etcd", true]);
    expect(args).toContain(`--data-dir=${join(folder, "demo", "etcd")}`);
    expect(stores().access(place).servers).toEqual(["https://100.80.0.2:2379"]);
    expect(stores().files(cluster)).toEqual([]);
  });

  test("one that ends before it answers is told with its own words", async () => {
    const place = { cluster: kept({ backingStore: "etcd" }), keys, address: ADDRESS };
    const etcd = { start: async () => undefined, ended: () => "panic: disk is full", alone: () => undefined };
    await expect(stores().serve(place, signal, etcd)).rejects.toThrow("ended: panic: disk is full");
  });

  test("somebody else's must be healthy, and is cleared when the cluster goes", async () => {
    const url = await fakeEtcd('{"health":"true"}');
    const cluster = kept({ backingStore: "external", externalEndpoints: [url] });
    const place = { cluster, keys, address: ADDRESS };
    await stores().serve(place, signal, never);
    const { prefix = "" } = stores().access(place);
    expect(prefix).toMatch(/^\/gpve\/shop\/demo\/[0-9a-f]{12}$/);
    const said: string[] = [];
    await stores().remove(place, (line) => said.push(line));
    expect(said).toEqual([]);
    const range = { key: `${prefix}/`, range_end: `${prefix}0` };
    const sent = Object.entries(range).map(([name, text]) => [name, Buffer.from(text).toString("base64")]);
    expect(asked).toEqual([
      "GET /health ",
      `POST /v3/kv/deleterange ${JSON.stringify(Object.fromEntries(sent))}`,
    ]);
  });

  test("what somebody else's does not delete is told, and how to do it", async () => {
    const url = await fakeEtcd("", 503);
    const cluster = kept({ backingStore: "external", externalEndpoints: [url, "https://127.0.0.1:1"] });
    const said: string[] = [];
    await stores().remove({ cluster, keys }, (line) => said.push(line));
    expect(said.join()).toMatch(
      /stay in the external etcd.*503.*ECONNREFUSED.*etcdctl del --prefix \/gpve\/shop/,
    );
    rmSync(keys.file("ca.crt"));
    await stores().remove({ cluster, keys }, (line) => said.push(line));
    expect(said).toHaveLength(1);
  });

  test("nobody waits for one that does not answer once the work was cancelled", async () => {
    const url = await fakeEtcd('{"health":"false"}', 503);
    const cluster = kept({ backingStore: "external", externalEndpoints: [url] });
    const gone = new AbortController();
    const waiting = stores().serve({ cluster, keys, address: ADDRESS }, gone.signal, never);
    await expect.poll(() => asked.length).toBeGreaterThan(0);
    gone.abort(new Error("cancelled"));
    await expect(waiting).rejects.toThrow("cancelled");
  });
});

test("the process of a new cluster's store is started before it is wanted, where it will be", () => {
  const all = stores();
  all.warmUp(kept({ backingStore: "etcd" }));
  all.warmUp({ ...kept({}), isNew: true });
  expect(sqlite).toEqual([]);
  all.warmUp(kept({}));
  expect(sqlite).toEqual(["ensure"]);
});
