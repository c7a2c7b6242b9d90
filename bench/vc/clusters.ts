// Virtual clusters of a gpve for measuring, asked for by its API as any client does.
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { apiOf, type Gpve } from "../../test/support/gpve.ts";
import { waitTask } from "../../test/support/tasks.ts";
import { pidOf } from "../../test/support/vclusters.ts";

const PARTS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const WAIT_MS = 600_000;

interface Status {
  readonly phase: string;
  readonly power: string;
  readonly endpoint: string;
  readonly message?: string;
}

export class Clusters {
  readonly gpve: Gpve;
  readonly #api: ReturnType<typeof apiOf>;
  readonly #pve: ReturnType<typeof apiOf>;

  constructor(gpve: Gpve) {
    this.gpve = gpve;
    this.#api = apiOf(gpve.credentials, undefined, "/api/v1");
    this.#pve = apiOf(gpve.credentials);
  }

  async ask(method: string, path: string, body?: object): Promise<unknown> {
    const raw = body === undefined ? undefined : JSON.stringify(body);
    const headers =
      raw === undefined
        ? {}
        : { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(raw)) };
    const answer = await this.#api(method, path, {}, headers, raw ?? (method === "GET" ? undefined : ""));
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text) as unknown;
  }

  /** Milliseconds until it runs; `sleep`: how it sleeps, if at all. */
  async create(name: string, sleep: object = { mode: "none" }): Promise<number> {
    const begun = performance.now();
    await this.ask("POST", "/vclusters", { name, controlPlane: { tier: "starter" }, sleep });
    await this.until(name, ({ phase, message }) => {
      if (phase === "Failed") throw new Error(`${name} failed: ${message ?? ""}`);
      return phase === "Running";
    });
    return performance.now() - begun;
  }

  async sleep(name: string, mode: "cold" | "warm"): Promise<void> {
    const { task } = (await this.ask("POST", `/vclusters/${name}/sleep?mode=${mode}`)) as { task: string };
    // Not when its processes have ended: what comes then would be waited for by whoever wakes it.
    const ended = await waitTask(this.#pve, task);
    if (ended.exitstatus !== "OK") throw new Error(`${name} does not sleep: ${ended.exitstatus ?? ""}`);
    await this.until(name, ({ power }) => power === mode);
  }

  async remove(name: string): Promise<void> {
    await this.ask("DELETE", `/vclusters/${name}`);
    const isThere = async (): Promise<boolean> =>
      (await this.#api("GET", `/vclusters/${name}`)).status !== 404;
    for (const end = performance.now() + WAIT_MS; (await isThere()) && performance.now() < end;)
      await sleep(100);
  }

  /** Milliseconds until somebody who connects is answered: by the proxy, without a client of Kubernetes' own. */
  async wake(name: string): Promise<number> {
    const { endpoint } = await this.status(name);
    const begun = performance.now();
    await this.answered(endpoint);
    return performance.now() - begun;
  }

  /** On a connection of its own. */
  answered(endpoint: string): Promise<void> {
    return answered(endpoint);
  }

  async status(name: string): Promise<Status> {
    return ((await this.ask("GET", `/vclusters/${name}`)) as { status: Status }).status;
  }

  async until(name: string, isSo: (status: Status) => boolean): Promise<void> {
    const end = performance.now() + WAIT_MS;
    for (;;) {
      const status = await this.status(name);
      if (isSo(status)) return;
      if (performance.now() > end) throw new Error(`${name} is ${JSON.stringify(status)} for ten minutes`);
      await sleep(50);
    }
  }

  /** Memory that its control plane has written to: what one more takes, where its programs run already. */
  memoryMiB(name: string): number {
    return PARTS.reduce((sum, part) => sum + writtenMiB(pidOf(this.gpve, `${name}.${part}`)), 0);
  }
}

function writtenMiB(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Math.round(Number(/^Private_Dirty:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) / 1024);
}

function answered(endpoint: string): Promise<void> {
  const { hostname, port } = new URL(endpoint);
  return new Promise((resolve, reject) => {
    // Who it is does not matter here: that it speaks does.
    const sent = request(
      { host: hostname, port, path: "/readyz", agent: false, rejectUnauthorized: false, timeout: WAIT_MS },
      (response) => {
        response.resume();
        response.on("end", resolve);
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}
