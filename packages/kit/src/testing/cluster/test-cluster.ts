// Several nodes on one machine: a server and agents, each in its own network namespace with its own address, data
// directory and real process. One call makes it, `close` leaves nothing behind.
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { AppError } from "@gpve/contracts/errors.ts";
import { identify } from "../../process-identity.ts";
import { createTestNetwork, sweepTestNetworks, type TestMachine, type TestNetwork } from "./test-network.ts";
import { TestProcess, eventually } from "./test-process.ts";

export const SERVER_PORT = 8006;
export const AGENT_PORT = 8444;
const FOLDER_PREFIX = "gpve-cluster-";

export interface TestClusterOptions {
  readonly nodes?: number;
  /** More than one need etcd. */
  readonly servers?: number;
  readonly store?: "sqlite" | "etcd";
  /** Starts the product: followed by "server" or "agent" and "--config FILE". */
  readonly command: readonly string[];
  /** Start the agents too; default true. */
  readonly startAgents?: boolean;
  /** How long a part may take to start; more where all is emulated. */
  readonly startMs?: number;
}

export interface TestMember {
  readonly name: string;
  readonly address: string;
  readonly dataDir: string;
  readonly logFile: string;
  readonly machine: TestMachine;
  readonly running: boolean;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** kill -9 */
  kill(): Promise<void>;
  cutOff(): Promise<void>;
  heal(): Promise<void>;
  output(): string;
}

export interface TestCredentials {
  readonly url: string;
  readonly caFile: string;
  readonly username: string;
  readonly password: string;
  readonly token: string;
}

export interface TestApiAnswer {
  readonly status: number;
  readonly reason: string;
  readonly body: unknown;
}

export interface TestCluster {
  /** The first server. */
  readonly server: TestMember;
  readonly servers: readonly TestMember[];
  readonly nodes: readonly TestMember[];
  node(name: string): TestMember;
  credentials(): TestCredentials;
  /** JSON in and out, as root's token, at the first server. The path starts at "/api2/json/…" or "/api/v1/…". */
  api(method: string, path: string, body?: unknown): Promise<TestApiAnswer>;
  apiAt(server: TestMember, method: string, path: string, body?: unknown): Promise<TestApiAnswer>;
  close(): Promise<void>;
}

/** Removes what tests that were killed left behind: namespaces, processes, data. */
export async function sweepTestClusters(): Promise<void> {
  await sweepTestNetworks();
  for (const name of readdirSync(tmpdir())) {
    const owner = /^gpve-cluster-(\d+)-/.exec(name)?.[1];
    if (owner !== undefined && identify(Number(owner)) === undefined) {
      rmSync(join(tmpdir(), name), { recursive: true, force: true });
    }
  }
}

export async function startTestCluster(options: TestClusterOptions): Promise<TestCluster> {
  await sweepTestClusters();
  const network = await createTestNetwork();
  const folder = mkdtempSync(join(tmpdir(), `${FOLDER_PREFIX}${process.pid}-`));
  const undo: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.toReversed()) await step();
    await network.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const build = new Builder(network, folder, options, undo);
    const server = await build.server(1);
    await server.start();
    const credentials = (): TestCredentials =>
      JSON.parse(readFileSync(join(server.dataDir, "credentials.json"), "utf8")) as TestCredentials;
    await eventually("the server's credentials", 30_000, () => {
      try {
        return credentials().token !== "";
      } catch {
        return false;
      }
    });
    const servers = [server];
    for (let index = 2; index <= (options.servers ?? 1); index++) {
      const further = await build.server(index);
      mkdirSync(join(further.dataDir, "secrets"), { mode: 0o700 });
      copyFileSync(join(server.dataDir, "secrets/master.key"), join(further.dataDir, "secrets/master.key"));
      await further.start();
      servers.push(further);
    }
    const apiAt: TestCluster["apiAt"] = (at, method, path, body) =>
      callApi(at.address, credentials(), method, path, body);
    const api: TestCluster["api"] = (method, path, body) => apiAt(server, method, path, body);
    const nodes: TestMember[] = [];
    for (let index = 1; index <= (options.nodes ?? 3); index++) {
      const name = `n${index}`;
      nodes.push(
        await build.agent(
          name,
          servers.map(({ address }) => address),
          await joinToken(api, name),
        ),
      );
    }
    if (options.startAgents !== false) await Promise.all(nodes.map((node) => node.start()));
    return {
      server,
      servers,
      nodes,
      node: (name) => {
        const found = nodes.find((node) => node.name === name);
        if (found === undefined) throw new AppError("object.not_found", `no test node ${name}`);
        return found;
      },
      credentials,
      api,
      apiAt,
      close,
    };
  } catch (err) {
    await close();
    throw err;
  }
}

class Builder {
  readonly #network: TestNetwork;
  readonly #folder: string;
  readonly #options: TestClusterOptions;
  readonly #undo: (() => Promise<void>)[];

  constructor(
    network: TestNetwork,
    folder: string,
    options: TestClusterOptions,
    undo: (() => Promise<void>)[],
  ) {
    this.#network = network;
    this.#folder = folder;
    this.#options = options;
    this.#undo = undo;
  }

  #etcdUrl: string | undefined;

  async server(index: number): Promise<TestMember> {
    const machine = await this.#network.addMachine(`srv${index}`);
    // On a machine of its own: servers can then be cut off without it.
    if (this.#options.store === "etcd")
      this.#etcdUrl ??= await this.#etcd(await this.#network.addMachine("etcd"));
    const etcd = this.#etcdUrl;
    return this.#member(machine, "server", SERVER_PORT, {
      apiVersion: "gpve.io/v1",
      kind: "ServerConfiguration",
      dataDir: join(this.#folder, machine.name),
      server: { address: machine.address, port: SERVER_PORT },
      cluster: { name: "test", ...(etcd === undefined ? {} : { etcd: { endpoints: [etcd] } }) },
      logging: { level: "debug", format: "json" },
    });
  }

  async agent(name: string, servers: readonly string[], token: string): Promise<TestMember> {
    const machine = await this.#network.addMachine(name);
    return this.#member(machine, "agent", AGENT_PORT, {
      apiVersion: "gpve.io/v1",
      kind: "AgentConfiguration",
      dataDir: join(this.#folder, name),
      agent: { nodeName: name, address: machine.address, port: AGENT_PORT },
      server: { endpoints: servers.map((address) => `https://${address}:${SERVER_PORT}`), token },
      logging: { level: "debug", format: "json" },
    });
  }

  #member(
    machine: TestMachine,
    part: "server" | "agent",
    port: number,
    config: { dataDir: string; [key: string]: unknown },
  ): TestMember {
    const { name, address } = machine;
    const configFile = join(this.#folder, `${name}.yaml`);
    const logFile = join(this.#folder, `${name}.log`);
    mkdirSync(config.dataDir, { recursive: true });
    writeFileSync(configFile, stringify(config), { mode: 0o600 });
    // All share one host name, and servers are told apart by it.
    const own = part === "server" ? ["--node", name] : [];
    const argv = [...machine.enter, ...this.#options.command, part, "--config", configFile, ...own];
    const process = new TestProcess({ argv, logFile, address, port, startMs: this.#options.startMs });
    this.#undo.push(() => process.kill());
    return {
      name,
      address,
      dataDir: config.dataDir,
      logFile,
      machine,
      get running() {
        return process.running;
      },
      start: () => process.start(),
      stop: () => process.stop(),
      kill: () => process.kill(),
      cutOff: () => machine.cutOff(),
      heal: () => machine.heal(),
      output: () => process.output(),
    };
  }

  async #etcd(machine: TestMachine): Promise<string> {
    const url = `http://${machine.address}:2379`;
    const peer = `http://${machine.address}:2380`;
    const name = [
      "--name",
      "m1",
      "--data-dir",
      join(this.#folder, "etcd"),
      "--initial-cluster",
      `m1=${peer}`,
    ];
    const clients = ["--listen-client-urls", url, "--advertise-client-urls", url];
    const peers = ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer];
    const process = new TestProcess({
      argv: [...machine.enter, "etcd", ...name, ...clients, ...peers],
      logFile: join(this.#folder, "etcd.log"),
      address: machine.address,
      port: 2379,
    });
    this.#undo.push(() => process.kill());
    await process.start();
    return url;
  }
}

async function joinToken(api: TestCluster["api"], node: string): Promise<string> {
  const answer = await api("POST", "/api/v1/join-tokens", { node, ttlSeconds: 3_600 });
  const { token } = answer.body as { token?: unknown };
  if (typeof token === "string") return token;
  throw new AppError("internal.error", `no join token: ${answer.status} ${JSON.stringify(answer.body)}`);
}

function callApi(
  address: string,
  credentials: TestCredentials,
  method: string,
  path: string,
  body: unknown,
): Promise<TestApiAnswer> {
  const payload = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: address,
        port: SERVER_PORT,
        ca: readFileSync(credentials.caFile),
        method,
        path,
        agent: false,
        timeout: 45_000,
        headers: {
          Authorization: `PVEAPIToken=${credentials.token}`,
          ...(payload === undefined
            ? {}
            : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(payload) }),
        },
      },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          resolve({
            status: answer.statusCode ?? 0,
            reason: Buffer.from(answer.statusMessage ?? "", "latin1").toString("utf8"),
            body: /^[[{]/.test(text) ? (JSON.parse(text) as unknown) : text,
          });
        });
      },
    );
    outgoing.on("timeout", () => outgoing.destroy(new Error(`${method} ${path} got no answer`)));
    outgoing.on("error", reject);
    outgoing.end(payload);
  });
}
