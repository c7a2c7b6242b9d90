// A further server by one command (`gpvectl server join-command` prints it): no key file is copied by hand.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { apiOf, mainFile, nodeBinary, readCredentials, untilPrinted } from "../support/gpve.ts";
import { freePorts, startParts } from "../support/parts.ts";

if (etcdMissing !== undefined) console.warn(`SKIPPED: ${etcdMissing}`);
const dir = mkdtempSync(join(tmpdir(), "gpve-server-join-"));
const closers: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closers.toReversed()) await close();
  rmSync(dir, { recursive: true, force: true });
});

const LOOPBACK = "127.0.0.1";
/** One that others reach: where a server listens on loopback only, nobody is told of it. */
const address =
  Object.values(networkInterfaces())
    .flat()
    .find((each) => each?.family === "IPv4" && !each.internal)?.address ?? LOOPBACK;
if (address === LOOPBACK)
  console.warn(
    "NOT TESTED: this machine has no address but loopback: whether agents learn of servers that join",
  );

const main = ["--disable-warning=ExperimentalWarning", mainFile];
const okCodes = Array.from({ length: 256 }, (_, code) => code);
const gpve = (args: readonly string[], input = "") =>
  exec(nodeBinary, [...main, ...args], { input, okCodes, timeoutMs: 60_000 });

test.skipIf(etcdMissing !== undefined)(
  "a further server joins by one command, and both serve the same",
  async () => {
    const etcd = await startEtcd({ members: 1, tls: true });
    closers.push(() => etcd.stop());
    const parts = await startParts({
      endpoints: etcd.endpoints,
      ...(etcd.tls === undefined
        ? {}
        : { caFile: etcd.tls.caFile, certFile: etcd.tls.certFile, keyFile: etcd.tls.keyFile }),
    });
    closers.push(() => parts.stop());
    const { url } = parts.credentials;
    const v1 = apiOf(parts.credentials, undefined, "/api/v1");
    const tokenFor = async (what: string, body: object): Promise<string> => {
      const json = { "Content-Type": "application/json" };
      const answer = await v1("POST", what, {}, json, JSON.stringify(body));
      return (JSON.parse(answer.text) as { token: string }).token;
    };
    const token = await tokenFor("/server-join-tokens", { node: "s2" });
    const [port = 0, spicePort = 0] = await freePorts(2);
    const [data, config] = [join(dir, "s2"), join(dir, "s2.yaml")];
    const places = ["--data", data, "--config", config, "--address", address, "--port", String(port)];
    const joining = (name: string, text: string) =>
      gpve(["server", "join", "--endpoint", url, "--node", name, ...places], text);
    // Neither another name nor another token opens it, and a token for nodes does not either.
    expect((await joining("s9", token)).stderr).toContain("this join token is for node s2, not for s9");
    const forNodes = await tokenFor("/join-tokens", {});
    expect((await joining("s2", forNodes)).stderr).toContain("unknown, used or expired");
    expect(existsSync(config)).toBe(false);

    const joined = await joining("s2", token);
    expect([joined.code, joined.stdout + joined.stderr]).toEqual([
      0,
      expect.stringContaining("is a server of cluster test"),
    ]);
    for (const file of [config, join(data, "secrets/master.key"), join(data, "pki/etcd.key")])
      expect([file, statSync(file).mode & 0o077]).toEqual([file, 0]);
    expect(readFileSync(join(data, "secrets/master.key"), "utf8")).toBe(
      readFileSync(join(parts.serverData, "secrets/master.key"), "utf8"),
    );
    expect((await joining("s2", token)).stderr).toContain("this machine is a server already");

    const text = readFileSync(config, "utf8").replace(
      `"address": "${address}"`,
      `"address": "${address}", "spicePort": ${spicePort}`,
    );
    writeFileSync(config, text);
    const second: Child = startChild(nodeBinary, [...main, "server", "--config", config, "--node", "s2"]);
    closers.push(() => second.stop());
    await untilPrinted(second, "is ready at");
    // Two of one name would wait for each other's journal.
    const elsewhere = ["--data", join(dir, "s3"), "--config", join(dir, "s3.yaml"), ...places.slice(4)];
    const any = await tokenFor("/server-join-tokens", {});
    const named = await gpve(["server", "join", "--endpoint", url, "--node", "s2", ...elsewhere], any);
    expect(named.stderr).toContain("a server named s2 runs in this cluster: choose another name");
    expect(existsSync(join(dir, "s3.yaml"))).toBe(false);
    // What the first one made the second one opens: the same users, the same secrets.
    const other = readCredentials(data);
    const { token: secret } = parts.credentials;
    expect((await apiOf({ ...other, token: secret })("GET", "/version")).status).toBe(200);
    const made = await apiOf(parts.credentials)("POST", "/pools", { poolid: "seen" });
    expect(made.status).toBe(200);
    const pools = await apiOf(other)("GET", "/pools");
    expect(pools.data).toMatchObject([{ poolid: "seen" }]);

    for (const credentials of [parts.credentials, other]) {
      const status = (await apiOf(credentials)("GET", "/cluster/status")).data as Row[];
      expect(status.filter(({ type }) => type === "cluster")).toMatchObject([{ name: "test", quorate: 1 }]);
      expect(status.filter(({ local }) => local === 1)).toHaveLength(1);
      expect(status.filter(({ type }) => type === "node")).toMatchObject([{ name: "n1", nodeid: 1 }]);
    }

    // The agent's configuration names the first server only. It has learned of the second one, also for its next start.
    if (address === LOOPBACK) return;
    const row = async () =>
      ((await apiOf(other)("GET", "/nodes")).data as NodeRow[]).find(({ node }) => node === "n1")?.status;
    await expect.poll(row, { timeout: 120_000 }).toBe("online");
    await parts.agent.stop();
    await parts.server.stop();
    const file = join(dirname(parts.agentData), "agent.yaml");
    const agent: Child = startChild(nodeBinary, [...main, "agent", "--config", file]);
    closers.push(() => agent.stop());
    const content = async () => (await apiOf(other)("GET", "/nodes/n1/storage/local/content")).status;
    await expect.poll(content, { timeout: 120_000 }).toBe(200);
    expect(await row()).toBe("online");
  },
);

interface NodeRow {
  readonly node: string;
  readonly status: string;
}

interface Row {
  readonly type: string;
  readonly local?: number;
}
