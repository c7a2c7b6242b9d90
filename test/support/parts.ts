// Server and agent as two processes on a given store, joined by a real invitation.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { stringify } from "yaml";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { apiOf, mainFile, nodeBinary, readCredentials, untilPrinted, type Credentials } from "./gpve.ts";

export interface Parts {
  readonly credentials: Credentials;
  readonly server: Child;
  readonly agent: Child;
  /** The agent's data directory. */
  readonly agentData: string;
  /** The machine comes back after its node was removed: a new invitation, a new key, the same data directory. */
  rejoin(): Promise<void>;
  stop(): Promise<void>;
}

export interface EtcdSettings {
  readonly endpoints: readonly string[];
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

export async function startParts(etcd: EtcdSettings | undefined): Promise<Parts> {
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
      server: { address: "127.0.0.1", port: serverPort },
      cluster: { name: "test", ...given({ etcd }) },
    }),
  );
  const run = (args: readonly string[]): Child =>
    startChild(nodeBinary, ["--disable-warning=ExperimentalWarning", mainFile, ...args]);
  const server = run(["server", "--config", serverFile, "--data", serverData]);
  await untilPrinted(server, "is ready at");
  const credentials = readCredentials(serverData);
  const agentData = join(dir, "agent");
  const agentFile = join(dir, "agent.yaml");
  const joined = async (): Promise<Child> => {
    const token = await invite(credentials);
    writeFileSync(
      agentFile,
      stringify({
        apiVersion: "gpve.io/v1",
        kind: "AgentConfiguration",
        dataDir: agentData,
        agent: { nodeName: "n1", address: "127.0.0.1", port: agentPort },
        server: { endpoint: credentials.url, token },
      }),
    );
    const child = run(["agent", "--config", agentFile]);
    await untilPrinted(child, "runs node n1");
    await untilOnline(credentials);
    return child;
  };
  let agent = await joined();
  return {
    credentials,
    server,
    get agent() {
      return agent;
    },
    agentData,
    async rejoin() {
      await agent.stop();
      agent = await joined();
    },
    async stop() {
      await Promise.all([agent.stop(), server.stop()]);
      rmSync(dir, { recursive: true, force: true });
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
  const end = Date.now() + 30_000;
  for (;;) {
    const rows = (await api("GET", "/nodes")).data as { node: string; status: string }[];
    if (rows.some((row) => row.status === "online")) return;
    if (Date.now() > end) throw new Error(`the node never came online: ${JSON.stringify(rows)}`);
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
