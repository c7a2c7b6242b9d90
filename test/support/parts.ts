// Server and agent as two processes on a given store, joined by a real invitation.
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { stringify } from "yaml";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { apiOf, mainFile, nodeBinary, readCredentials, untilPrinted, type Credentials } from "./gpve.ts";
import { removeNode } from "./left-guests.ts";

/** On a machine that is busy with other tests too. */
const START_MS = 120_000;

export interface Parts {
  readonly credentials: Credentials;
  readonly server: Child;
  readonly agent: Child;
  /** The agent's data directory. */
  readonly agentData: string;
  readonly serverData: string;
  /** The machine comes back after its node was removed: a new invitation, a new key, the same data directory. */
  rejoin(): Promise<void>;
  /** kill -9 of what runs of both. */
  kill(): Promise<void>;
  /** Both again, on the same data and as the same node. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface EtcdSettings {
  readonly endpoints: readonly string[];
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly username?: string;
  readonly password?: string;
}

type Sections = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Sections of the two configuration files, beside what a test needs anyway. */
export interface PartsOptions {
  readonly server?: Sections;
  readonly agent?: Sections;
}

export async function startParts(etcd: EtcdSettings | undefined, options: PartsOptions = {}): Promise<Parts> {
  const dir = mkdtempSync(join(tmpdir(), "gpve-parts-"));
  const [serverPort = 0, agentPort = 0] = await freePorts(2);
  const serverData = join(dir, "server");
  mkdirSync(serverData);
  const serverFile = join(dir, "server.yaml");
  writeFileSync(
    serverFile,
    stringify({
      apiVersion: "gpve.io/v1",
      kind: "ServerConfiguration",
      dataDir: serverData,
      ...options.server,
      server: { address: "127.0.0.1", port: serverPort, ...options.server?.["server"] },
      cluster: { name: "test", ...given({ etcd }), ...options.server?.["cluster"] },
    }),
  );
  const run = (args: readonly string[]): Child =>
    startChild(nodeBinary, ["--disable-warning=ExperimentalWarning", mainFile, ...args]);
  const served = async (): Promise<Child> => {
    const child = run(["server", "--config", serverFile, "--data", serverData]);
    await untilPrinted(child, "is ready at", START_MS);
    return child;
  };
  let server = await served();
  const credentials = readCredentials(serverData);
  const agentData = join(dir, "agent");
  const agentFile = join(dir, "agent.yaml");
  const runs = async (): Promise<Child> => {
    const child = run(["agent", "--config", agentFile]);
    await untilPrinted(child, "runs node n1", START_MS);
    await untilOnline(credentials);
    return child;
  };
  const joined = async (): Promise<Child> => {
    const token = await invite(credentials);
    writeFileSync(
      agentFile,
      stringify({
        apiVersion: "gpve.io/v1",
        kind: "AgentConfiguration",
        dataDir: agentData,
        ...options.agent,
        agent: { nodeName: "n1", address: "127.0.0.1", port: agentPort },
        server: { endpoint: credentials.url, token },
      }),
    );
    return runs();
  };
  let agent = await joined();
  return {
    credentials,
    get server() {
      return server;
    },
    get agent() {
      return agent;
    },
    agentData,
    serverData,
    async rejoin() {
      await agent.stop();
      agent = await joined();
    },
    async kill() {
      await Promise.all([agent.stop(), server.stop()]);
    },
    async restart() {
      server = await served();
      agent = await runs();
      // It may have been online a moment ago: it works when it has the cluster's records again.
      await untilWorks(credentials);
    },
    async stop() {
      await Promise.all([agent.stop(), server.stop()]);
      await removeNode(dir, agentData);
    },
  };
}

async function invite(credentials: Credentials): Promise<string> {
  const api = apiOf(credentials, undefined, "/api/v1");
  const answer = await api("POST", "/join-tokens", {}, { "Content-Type": "application/json" }, "{}");
  return (JSON.parse(answer.text) as { token: string }).token;
}

async function untilOnline(credentials: Credentials): Promise<void> {
  const api = apiOf(credentials);
  const end = performance.now() + 180_000;
  for (;;) {
    const rows = (await api("GET", "/nodes")).data as { node: string; status: string }[];
    if (rows.some((row) => row.status === "online")) return;
    if (performance.now() > end) throw new Error(`the node never came online: ${JSON.stringify(rows)}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

async function untilWorks(credentials: Credentials): Promise<void> {
  const api = apiOf(credentials);
  const end = performance.now() + 180_000;
  for (;;) {
    const answer = await api("GET", "/nodes/n1/storage/local/content");
    if (answer.status === 200) return;
    if (performance.now() > end)
      throw new Error(`the node does not work again: ${answer.status} ${answer.text}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}
