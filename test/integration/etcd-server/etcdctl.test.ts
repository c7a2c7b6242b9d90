// The real etcdctl against our server on SQLite, and the same commands against a real etcd: one transcript.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { type EtcdListener, listenEtcd } from "@gpve/store/etcd-server/listen.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { makeTestCertificates } from "@gpve/store/testing/test-certificates.ts";

const binary = "/usr/bin/etcdctl";
const missing = existsSync(binary)
  ? etcdMissing
  : "no etcdctl program found; install it with: apt-get install etcd-client";
if (missing !== undefined) console.error(`SKIPPED etcd-server/etcdctl: ${missing}`);

interface Said {
  readonly code: number;
  readonly out: string;
  /** Its last line on stderr, without what differs from one server to the next. */
  readonly error: string;
}

class Etcdctl {
  readonly #args: readonly string[];
  readonly env: Readonly<Record<string, string>> = { ...MINIMAL_ENV, ETCDCTL_API: "3" };

  /** Without a scheme: etcdctl 3.4 otherwise sends one in a place where HTTP/2 allows none. */
  constructor(url: string, extra: readonly string[] = []) {
    this.#args = [`--endpoints=${new URL(url).host}`, ...extra];
  }

  argv(...args: string[]): string[] {
    return [...this.#args, ...args];
  }

  async run(args: string[], input = ""): Promise<Said> {
    const okCodes = Array.from({ length: 256 }, (_, code) => code);
    const said = await exec(binary, this.argv(...args), { env: this.env, input, okCodes, timeoutMs: 60_000 });
    const error = said.stderr.split("\n").findLast((line) => line.startsWith("Error:")) ?? "";
    return { code: said.code, out: said.stdout.trim(), error };
  }
}

describe.skipIf(missing !== undefined)("etcdctl", () => {
  let dir: string;
  let store: Store;
  let listener: EtcdListener;
  let cluster: EtcdCluster;
  let ours: Etcdctl;
  let theirs: Etcdctl;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "gpve-etcdctl-"));
    store = openSqliteStore({ path: join(dir, "store.db") });
    listener = await listenEtcd({ store, name: "vc", listen: { host: "127.0.0.1", port: 0 } });
    cluster = await startEtcd({ members: 1 });
    ours = new Etcdctl(listener.url);
    theirs = new Etcdctl(cluster.endpoints[0] ?? "");
  });
  afterAll(async () => {
    await listener.close();
    await store.close();
    await cluster.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  /** What a person would type, and what was said to it. */
  const transcript = async (ctl: Etcdctl): Promise<[string, Said][]> => {
    const told: [string, Said][] = [];
    const say = async (line: string, input?: string): Promise<Said> => {
      const said = await ctl.run(line.split(" "), input);
      told.push([line, said]);
      return said;
    };
    for (let i = 10; i < 30; i++) await say(`put n/${i} ${i}`);
    await say("put a one");
    await say("put a two --prev-kv");
    await say("put a --ignore-value", "");
    await say("put none --ignore-value");
    await say("get a");
    await say("get n/ --prefix --limit=3");
    await say("get n/ --prefix --keys-only --order=DESCEND --limit=2");
    await say("get n/ --prefix --sort-by=MODIFY --order=ASCEND --limit=2");
    await say("get n/28 --from-key");
    await say("get n/ --prefix --keys-only --write-out=fields");
    await say("get a --rev=23 --print-value-only");
    await say("get a --rev=99999");
    await say("del n/1 n/2 --prev-kv");
    await say("del nothing");
    await say("txn -i", 'value("a") = "two"\n\nput a three\nget a\n\nput a wrong\n\n');
    await say("txn -i", 'mod("a") > "9999"\nversion("a") = "1"\n\nput a no\n\nget a\ndel n/20\n\n');
    await say("lease grant 600 --write-out=fields");
    await say("lease revoke 1234");
    await say("lease timetolive 1234");
    await say("lease keep-alive --once 1234");
    await say("put a leased --lease=1234");
    await say("compact 20");
    await say("compact 20");
    await say("compact 99999");
    await say("get a --rev=5");
    await say("defrag");
    await say("endpoint health");
    await say("alarm list");
    await say("alarm disarm");
    await say("lock mutex true");
    await say("get mutex --prefix");
    return told;
  };

  it("hears from us what etcd says to the same commands", async () => {
    const [mine, real] = [await transcript(ours), await transcript(theirs)];
    const same = (said: readonly [string, Said][]): unknown[] =>
      said.map(([line, { code, out, error }]) => [line, code, neutral(out), error]);
    expect(same(mine)).toEqual(same(real));
    expect(mine.filter(([, { code }]) => code !== 0).map(([line]) => line)).toEqual([
      "put none --ignore-value",
      "get a --rev=99999",
      "lease revoke 1234",
      "lease keep-alive --once 1234",
      "put a leased --lease=1234",
      "compact 20",
      "compact 99999",
      "get a --rev=5",
    ]);
    console.log(`etcdctl: ${mine.length} commands, the same words from both`);
  });

  it("keeps leases, and what they hold ends with them", async () => {
    for (const ctl of [ours, theirs]) {
      const granted = (await ctl.run(["lease", "grant", "600"])).out;
      const id = /lease (\w+) granted with TTL\(600s\)/.exec(granted)?.[1] ?? granted;
      await ctl.run(["put", "leased", "x", `--lease=${id}`]);
      expect((await ctl.run(["lease", "list"])).out).toContain(id);
      expect((await ctl.run(["lease", "timetolive", id, "--keys"])).out).toMatch(
        /granted with TTL\(600s\), remaining\((599|600)s\), attached keys\(\[leased\]\)/,
      );
      expect((await ctl.run(["lease", "keep-alive", "--once", id])).out).toContain(
        "keepalived with TTL(600)",
      );
      expect((await ctl.run(["lease", "revoke", id])).out).toContain("revoked");
      expect((await ctl.run(["get", "leased"])).out).toBe("");
    }
  });

  it("watches history and what comes, with progress, until it is stopped", async () => {
    const stories = await Promise.all(
      [ours, theirs].map(async (ctl) => {
        await ctl.run(["put", "w/a", "1"]);
        const { out } = await ctl.run(["get", "w/a", "--write-out=json"]);
        const revision = (JSON.parse(out) as { header: { revision: number } }).header.revision;
        await ctl.run(["put", "w/a", "2"]);
        const argv = ctl.argv("watch", "w/", "--prefix", "--prev-kv", `--rev=${revision}`);
        const watch = startChild(binary, argv, { env: ctl.env });
        await ctl.run(["put", "w/b", "3"]);
        await ctl.run(["del", "w/", "--prefix"]);
        await expect.poll(() => watch.output().split("DELETE").length, { timeout: 150_000 }).toBe(3);
        await new Promise((resolve) => setTimeout(resolve, 200));
        const story = watch.output();
        await watch.stop();
        return story;
      }),
    );
    expect(stories[0]).toBe(stories[1]);
    expect(stories[0]?.match(/^PUT$/gm)?.length).toBe(3);
  });

  it("elects one leader after another", async () => {
    const first = startChild(binary, ours.argv("elect", "office", "first"), { env: ours.env });
    await expect.poll(() => first.output(), { timeout: 150_000 }).toMatch(/^office\/\w+\nfirst$/m);
    const second = startChild(binary, ours.argv("elect", "office", "second"), { env: ours.env });
    await expect
      .poll(async () => (await ours.run(["get", "office", "--prefix", "--keys-only", "-w", "fields"])).out)
      .toContain('"Count" : 2');
    expect(second.output()).toBe("");
    first.signal("SIGINT");
    await expect.poll(() => second.output(), { timeout: 150_000 }).toMatch(/^office\/\w+\nsecond$/m);
    second.signal("SIGINT");
    await Promise.all([first.exited, second.exited]);
  });

  it("sees one healthy member, its size, and the room that compaction and defrag give back", async () => {
    const status = async (): Promise<Record<string, unknown>> => {
      const { out } = await ours.run(["endpoint", "status", "--write-out=json"]);
      return (JSON.parse(out) as [{ Status: Record<string, unknown> }])[0].Status;
    };
    const value = "x".repeat(200_000);
    for (let i = 0; i < 20; i++) await ours.run(["put", "big"], value);
    const full = await status();
    expect(full).toMatchObject({
      version: "3.5.21",
      leader: (full["header"] as { member_id: number }).member_id,
    });
    await ours.run(["compact", String(await store.revision()), "--physical"]);
    const compacted = await status();
    expect(Number(compacted["dbSizeInUse"])).toBeLessThan(Number(full["dbSize"]) / 2);
    expect((await ours.run(["defrag"])).out).toMatch(/^Finished defragmenting etcd member/);
    expect(Number((await status())["dbSize"])).toBeLessThan(Number(full["dbSize"]) / 2);
    expect((await ours.run(["get", "big", "--print-value-only"])).out).toBe(value);
    const hash = (await ours.run(["endpoint", "hashkv"])).out.split(", ")[1];
    expect((await ours.run(["endpoint", "hashkv"])).out.split(", ")[1]).toBe(hash);
    await ours.run(["put", "other", "x"]);
    expect((await ours.run(["endpoint", "hashkv"])).out.split(", ")[1]).not.toBe(hash);
    expect((await ours.run(["member", "list"])).out).toMatch(
      /^[0-9a-f]+, started, vc, http:\/\/127\.0\.0\.1/,
    );
  });

  it("is refused with reasons what this store has not", async () => {
    for (const [line, words] of [
      [`snapshot save ${join(dir, "snapshot")}`, /gpvectl store backup/],
      ["user list", /no users and roles/],
      ["auth enable", /no users and roles/],
      ["role list", /no users and roles/],
      ["member add x --peer-urls=http://127.0.0.1:1", /one member/],
    ] as const) {
      const said = await ours.run(line.split(" "));
      expect(said.code, line).not.toBe(0);
      expect(said.error, line).toMatch(words);
    }
  });

  it("speaks TLS, and only with callers that have a certificate", async () => {
    const made = await makeTestCertificates();
    const file = (name: string, text: string): string => {
      writeFileSync(join(dir, name), text, { mode: 0o600 });
      return join(dir, name);
    };
    const guarded = await listenEtcd({
      store,
      name: "vc",
      listen: { host: "127.0.0.1", port: 0 },
      tls: { ...made.server, ca: made.ca },
    });
    const ca = `--cacert=${file("ca.pem", made.ca)}`;
    const cert = `--cert=${file("cert.pem", made.client.cert)}`;
    const key = `--key=${file("key.pem", made.client.key)}`;
    const known = await new Etcdctl(guarded.url, [ca, cert, key]).run(["put", "tls", "yes"]);
    expect(known.out).toBe("OK");
    const stranger = await new Etcdctl(guarded.url, [ca, "--command-timeout=2s"]).run(["get", "tls"]);
    expect(stranger.code).not.toBe(0);
    await guarded.close();
  });
});

/** Without numbers of members, leases and times. */
function neutral(out: string): string {
  return out
    .replaceAll(/"(ClusterID|MemberID|RaftTerm|ID)" : \d+/g, '"$1" : _')
    .replaceAll(/127\.0\.0\.1:\d+/g, "_")
    .replaceAll(/took = \S+/g, "took = _")
    .replaceAll(/mutex\/[0-9a-f]+/g, "mutex/_");
}
