// Servers that run etcd themselves, each with ports of its own on loopback.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { apiOf, mainFile, nodeBinary, nodeOptions, readCredentials, untilPrinted } from "./gpve.ts";
import { freePorts } from "./parts.ts";

const main = [...nodeOptions, mainFile];
const okCodes = Array.from({ length: 256 }, (_, code) => code);

export interface EmbeddedServer {
  readonly name: string;
  readonly data: string;
  readonly process: Child;
  start(): Promise<void>;
  /** The server, or its machine: the member of etcd too. */
  kill(what: "server" | "etcd" | "both"): Promise<void>;
}

export interface StoreMemberRow {
  readonly name: string;
  readonly role: string;
  readonly healthy: boolean;
}

export class EmbeddedCluster {
  readonly dir = mkdtempSync(join(tmpdir(), "gpve-embedded-"));
  readonly servers: EmbeddedServer[] = [];

  gpve(args: readonly string[], input = "") {
    return exec(nodeBinary, [...main, ...args], { input, okCodes, timeoutMs: 180_000 });
  }

  v1(server: EmbeddedServer) {
    return apiOf(readCredentials(server.data), undefined, "/api/v1");
  }

  pve(server: EmbeddedServer) {
    return apiOf(readCredentials(server.data));
  }

  async found(name: string): Promise<EmbeddedServer> {
    const file = join(this.dir, `${name}.yaml`);
    const data = join(this.dir, name);
    const [port = 0] = await freePorts(1);
    const config = {
      apiVersion: "gpve.io/v1",
      kind: "ServerConfiguration",
      dataDir: data,
      server: { address: "127.0.0.1", port },
      cluster: { name: "test", etcd: { embedded: true } },
    };
    writeFileSync(file, JSON.stringify(config));
    return this.#start(name, data, file);
  }

  /** By the command that `gpvectl server join-command` prints. */
  async join(name: string, by: EmbeddedServer): Promise<EmbeddedServer> {
    const data = join(this.dir, `${name}-${this.servers.length}`);
    const file = `${data}.yaml`;
    const json = { "Content-Type": "application/json" };
    const answer = await this.v1(by)("POST", "/server-join-tokens", {}, json, JSON.stringify({ node: name }));
    const { token } = JSON.parse(answer.text) as { token: string };
    const [port = 0] = await freePorts(1);
    const { url } = readCredentials(by.data);
    const places = ["--data", data, "--config", file, "--address", "127.0.0.1", "--port", String(port)];
    const joined = await this.gpve(["server", "join", "--endpoint", url, "--node", name, ...places], token);
    if (joined.code !== 0) throw new Error(joined.stdout + joined.stderr);
    return this.#start(name, data, file);
  }

  async #start(name: string, data: string, file: string): Promise<EmbeddedServer> {
    const config = JSON.parse(readFileSync(file, "utf8")) as {
      server: Record<string, unknown>;
      cluster: { etcd: Record<string, unknown> };
    };
    const [spicePort, port, peerPort] = await freePorts(3);
    Object.assign(config.server, { spicePort });
    Object.assign(config.cluster.etcd, { port, peerPort });
    writeFileSync(file, JSON.stringify(config));
    const args = [...main, "server", "--config", file, "--node", name];
    let child = startChild(nodeBinary, args);
    const server: EmbeddedServer = {
      name,
      data,
      get process() {
        return child;
      },
      async start() {
        child = startChild(nodeBinary, args);
        await untilPrinted(child, "is ready at", 120_000);
      },
      async kill(what) {
        if (what !== "etcd") await child.stop();
        if (what !== "server") killEtcd(data);
      },
    };
    this.servers.push(server);
    await untilPrinted(child, "is ready at", 120_000);
    return server;
  }

  async members(by: EmbeddedServer): Promise<readonly StoreMemberRow[]> {
    const answer = await this.v1(by)("GET", "/store-members");
    return (JSON.parse(answer.text) as { members?: StoreMemberRow[] }).members ?? [];
  }

  async stop(): Promise<void> {
    for (const server of this.servers) await server.process.stop();
    for (const server of this.servers) killEtcd(server.data);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function killEtcd(data: string): void {
  const note = join(data, "run", "etcd.json");
  if (!existsSync(note)) return;
  const { process: of } = JSON.parse(readFileSync(note, "utf8")) as { process: { pid: number } };
  try {
    process.kill(of.pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}
