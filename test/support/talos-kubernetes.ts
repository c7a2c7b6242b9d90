// The Kubernetes of a Talos cluster on real VMs, with everything real but its way in: a virtual cluster whose workers carry
// the names of the machines, one kubelet for each that has joined. In front of it stands what a Talos cluster has, an API
// server certified by the cluster's own authority; it passes on what administrators of that authority ask.
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { Agent, createServer, request as httpsRequest, type Server } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { compareVersions } from "@gpve/domain/component/component.ts";
import type { SecretsBundle } from "../../packages/talos/src/secrets/bundle.ts";
import { serverCertificate } from "../../packages/talos/src/testing/kubernetes-certificate.ts";
import { apiOf, type Credentials } from "./gpve.ts";
import { ctl, kubectl, type Said } from "./vclusters.ts";

export interface KubeletMachine {
  readonly hostname: string;
  /** Part of a cluster whose etcd runs. */
  readonly hasJoined: boolean;
  /** Of the API server that it is told to run; undefined = a worker. */
  readonly components: string | undefined;
}

export interface TalosKubernetesOptions {
  readonly gpve: { readonly data: string; readonly credentials: Credentials };
  /** Of the Talos cluster: its machines are NAME-cp-1, NAME-worker-1 and so on. */
  readonly name: string;
  readonly version: string;
}

/** How a virtual cluster is spoken to, by its own kubeconfig. */
interface Access {
  readonly server: string;
  readonly agent: Agent;
  readonly kubeconfig: string;
}

const PAUSE_MS = 500;
const DELETED_NODE = /^\/api\/v1\/nodes\/([^/?]+)(\?|$)/;
const MiB = 1024 ** 2;
/** Enough for pods that look around; what they have together must fit into the machine that tests run on. */
const SIZE = { cpu: "500m", memory: 512 * MiB };

export class TalosKubernetes {
  readonly #options: TalosKubernetesOptions;
  readonly #kubelets = new Map<string, number>();
  /** Machines that joined and are still there. */
  readonly #joined = new Set<string>();
  readonly #servers: Server[] = [];
  #version: string;
  #access: Access | undefined;
  /** What was brought back from a snapshot. */
  #scratch: Access | undefined;
  #isScratchThere = false;
  #working: Promise<unknown> = Promise.resolve();
  #following: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(options: TalosKubernetesOptions) {
    this.#options = options;
    this.#version = options.version;
    for (const role of ["cp", "worker"]) this.#kubelets.set(`${options.name}-${role}`, 0);
  }

  /** Its control plane, and nobody in it yet. */
  async create(): Promise<void> {
    const { gpve, name } = this.#options;
    const body = {
      name,
      kubernetesVersion: this.#version,
      // It waits for its machines, and nobody asks it meanwhile.
      sleep: { mode: "none" },
      workerNodes: {
        count: 0,
        pools: [...this.#kubelets.keys()].map((pool) => ({ name: pool, count: 0, resources: SIZE })),
      },
    };
    const api = apiOf(gpve.credentials, undefined, "/api/v1");
    const json = { "content-type": "application/json" };
    const made = await api("POST", "/vclusters?wait=true", {}, json, JSON.stringify(body));
    if (made.status !== 201) throw new Error(`no virtual cluster: ${made.text}`);
    this.#access = await this.#accessTo(name);
  }

  /** The port of an API server of the cluster, at each of the addresses. */
  front(secrets: SecretsBundle, host: string, isUp: () => boolean): Promise<number> {
    return this.#serve(
      secrets,
      [host],
      host,
      () => (isUp() ? this.#access : undefined),
      (hostname) => this.#leave(hostname),
    );
  }

  /** The same for the scratch cluster of a drill, whose machine passes it on. */
  scratchFront(secrets: SecretsBundle, host: string, address: string): Promise<number> {
    return this.#serve(secrets, [host, address], host, () => this.#scratch);
  }

  /** Gives each machine that joins a kubelet, and takes it from those that are gone. */
  follow(look: () => readonly KubeletMachine[]): void {
    this.#following = (async () => {
      while (!this.#isOver) {
        await this.#alone(() => this.#catchUp(look())).catch((err: unknown) =>
          console.info(`kubelets of ${this.#options.name}: ${messageOf(err)}`),
        );
        await sleep(PAUSE_MS);
      }
    })();
  }

  /** A backup: what is in its store, as one name. */
  save(): Promise<string> {
    const { name } = this.#options;
    return this.#alone(async () => {
      await this.#ctl("vc", "backup", name);
      const { out } = await this.#ctl("vc", "backups", name, "--output", "json");
      const backups = JSON.parse(out) as { archive: string }[];
      return backups.at(-1)?.archive ?? "";
    });
  }

  /** Kubernetes on the store of a backup, which the machine is then a node of: its kubelet says so, and no more. */
  bringBack(archive: string, hostname: string): Promise<void> {
    return this.#alone(async () => {
      if (this.#scratch !== undefined) return;
      this.#isScratchThere = true;
      await this.#ctl("vc", "restore", this.#scratchName, "--from", archive, "--workers", "0");
      const access = await this.#accessTo(this.#scratchName);
      const file = join(this.#options.gpve.data, "scratch-node.json");
      writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name: hostname } }));
      const made = await kubectl(access.kubeconfig, "apply", "-f", file);
      if (made.code !== 0) throw new Error(made.err);
      this.#scratch = access;
    });
  }

  dropScratch(): Promise<void> {
    return this.#alone(async () => {
      this.#scratch?.agent.destroy();
      this.#scratch = undefined;
      if (!this.#isScratchThere) return;
      await this.#ctl("vc", "delete", this.#scratchName, "--yes", "--volumes");
      this.#isScratchThere = false;
    });
  }

  async remove(): Promise<void> {
    this.#isOver = true;
    await this.#following;
    for (const server of this.#servers) server.close().closeAllConnections();
    await this.dropScratch();
    this.#access?.agent.destroy();
    if (this.#access === undefined) return;
    rmSync(this.#access.kubeconfig, { force: true });
    this.#access = undefined;
    await this.#ctl("vc", "delete", this.#options.name, "--yes", "--volumes");
  }

  get #scratchName(): string {
    return `${this.#options.name}-drill`;
  }

  /** A cluster does one thing at a time. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#working.then(work);
    this.#working = done.catch(() => undefined);
    return done;
  }

  /** Whose node is deleted is off, and so has to be its kubelet, or it registers again. */
  #leave(hostname: string): Promise<void> {
    return this.#alone(async () => {
      this.#joined.delete(hostname);
      await this.#scale();
    });
  }

  async #catchUp(machines: readonly KubeletMachine[]): Promise<void> {
    const { name } = this.#options;
    for (const { hostname, hasJoined } of machines) if (hasJoined) this.#joined.add(hostname);
    for (const hostname of this.#joined)
      if (!machines.some((machine) => machine.hostname === hostname)) this.#joined.delete(hostname);
    await this.#scale();
    const [newest = this.#version] = machines
      .flatMap(({ components }) => components ?? [])
      .toSorted(compareVersions)
      .toReversed();
    if (compareVersions(newest, this.#version) <= 0) return;
    await this.#ctl("vc", "upgrade", name, "--to", newest);
    this.#version = newest;
  }

  /** One kubelet for each machine that has joined. */
  async #scale(): Promise<void> {
    const { name } = this.#options;
    for (const [pool, count] of this.#kubelets) {
      const numbers = [...this.#joined]
        .filter((hostname) => hostname.startsWith(`${pool}-`))
        .map((hostname) => Number(hostname.slice(pool.length + 1)));
      // Workers of a pool are numbered without gaps: only the last one's goes while others stay.
      const wanted = Math.max(0, ...numbers);
      if (wanted === count) continue;
      await this.#ctl("vc", "scale", name, "--pool", pool, "--workers", String(wanted));
      this.#kubelets.set(pool, wanted);
    }
  }

  async #ctl(...argv: readonly string[]): Promise<Said> {
    const said = await ctl(this.#options.gpve, ...argv);
    if (said.code !== 0) throw new Error(`gpvectl ${argv.join(" ")}: ${said.err.slice(-1_000)}`);
    return said;
  }

  async #accessTo(name: string): Promise<Access> {
    const { out } = await this.#ctl("vc", "kubeconfig", name);
    const kubeconfig = join(this.#options.gpve.data, `${name}.kubeconfig`);
    writeFileSync(kubeconfig, out, { mode: 0o600 });
    const { clusters, users } = parse(out) as {
      clusters: { cluster: Record<string, string> }[];
      users: { user: Record<string, string> }[];
    };
    const pem = (text = ""): string => Buffer.from(text, "base64").toString("utf8");
    const {
      server = "",
      "certificate-authority-data": ca,
      // Servers of several nodes lead to a cluster by its name.
      "tls-server-name": servername,
    } = clusters[0]?.cluster ?? {};
    const { "client-certificate-data": cert, "client-key-data": key } = users[0]?.user ?? {};
    const pair = { ca: pem(ca), cert: pem(cert), key: pem(key) };
    const agent = new Agent({ keepAlive: true, ...pair, ...given({ servername }) });
    return { server, agent, kubeconfig };
  }

  async #serve(
    { certs: { k8s } }: SecretsBundle,
    addresses: readonly string[],
    host: string,
    access: () => Access | undefined,
    leave: (hostname: string) => Promise<void> = () => Promise.resolve(),
  ): Promise<number> {
    const pair = await serverCertificate(k8s, addresses);
    const options = { ...pair, ca: k8s.crt, requestCert: true, rejectUnauthorized: true };
    const server = createServer(options, (request, response) => {
      const to = access();
      // Nobody listens where no API server runs.
      if (to === undefined) {
        response.destroy();
        return;
      }
      const left = request.method === "DELETE" ? DELETED_NODE.exec(request.url ?? "")?.[1] : undefined;
      if (left === undefined) passOn(to, request, response);
      else
        leave(left).then(
          () => passOn(to, request, response),
          () => response.destroy(),
        );
    });
    this.#servers.push(server);
    server.listen(0, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
}

function passOn({ server, agent }: Access, request: IncomingMessage, response: ServerResponse): void {
  const { host: _host, connection: _connection, ...headers } = request.headers;
  const url = new URL(request.url ?? "/", server);
  const asked = httpsRequest(url, { method: request.method ?? "GET", headers, agent }, (answer) => {
    const { connection: _closed, ...said } = answer.headers;
    response.writeHead(answer.statusCode ?? 502, said);
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  });
  asked.on("error", () => response.destroy());
  response.on("close", () => asked.destroy());
  request.pipe(asked);
}
