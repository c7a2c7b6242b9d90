// A steady load on several servers, as well-behaved clients make it: who gets no answer at one asks the next one.
import { Agent, request } from "node:https";
import { readFileSync } from "node:fs";
import type { LabCredentials } from "./lab.ts";

const ATTEMPT_TIMEOUT_MS = 25_000;
/** What a server said longer ago says nothing of it now: on a busy machine a request waits while several are restarted. */
const STALE_MS = 10_000;
const SLOW_MS = 1_000;
const SLOWEST = 10;

export interface LoadRequest {
  readonly method: "GET" | "PUT";
  readonly path: string;
  readonly params?: Readonly<Record<string, string>>;
}

export interface LoadResult {
  readonly sent: number;
  readonly served: number;
  /** Those that the second or third server served, with what the first ones said. */
  readonly retried: readonly string[];
  /** Those that no server served at that time, with what each said. */
  readonly failed: readonly string[];
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** The ones that took longest, with when they began. */
  readonly slowest: readonly string[];
  readonly perSecond: number;
}

export class ApiLoad {
  readonly #credentials: LabCredentials;
  readonly #ca: Buffer;
  readonly #agents: readonly Agent[];
  readonly #next: (at: number) => LoadRequest;
  readonly #begun = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly #perSecond: number;
  readonly #running = new Set<Promise<void>>();
  readonly #times: number[] = [];
  readonly #slow: { readonly ms: number; readonly text: string }[] = [];
  readonly #retried: string[] = [];
  readonly #failed: string[] = [];
  #sent = 0;

  /** Sends as many each second as were asked for, whether or not the ones before have been answered. */
  constructor(credentials: LabCredentials, perSecond: number, next: (at: number) => LoadRequest) {
    this.#credentials = credentials;
    this.#ca = readFileSync(credentials.caFile);
    this.#agents = credentials.urls.map(() => new Agent({ keepAlive: true, maxSockets: 16 }));
    this.#next = next;
    this.#perSecond = perSecond;
    this.#timer = setInterval(() => this.#catchUp(), 10);
  }

  async stop(): Promise<LoadResult> {
    clearInterval(this.#timer);
    const seconds = (performance.now() - this.#begun) / 1000;
    await Promise.all(this.#running);
    for (const agent of this.#agents) agent.destroy();
    const sorted = this.#times.toSorted((a, b) => a - b);
    const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
    return {
      sent: this.#sent,
      served: sorted.length,
      retried: this.#retried,
      failed: this.#failed,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      maxMs: at(1),
      slowest: this.#slow
        .toSorted((a, b) => b.ms - a.ms)
        .slice(0, SLOWEST)
        .map(({ text }) => text),
      perSecond: this.#sent / seconds,
    };
  }

  #catchUp(): void {
    const due = ((performance.now() - this.#begun) / 1000) * this.#perSecond;
    while (this.#sent < due) {
      const number = this.#sent++;
      const work = this.#serve(number, this.#next(number)).finally(() => this.#running.delete(work));
      this.#running.add(work);
    }
  }

  async #serve(number: number, wanted: LoadRequest): Promise<void> {
    const { urls } = this.#credentials;
    const begun = performance.now();
    const said: string[] = [];
    const failedAt = urls.map(() => -Infinity);
    for (let at = number % urls.length; ; at = (at + 1) % urls.length) {
      const problem = await this.#attempt(at, wanted);
      if (problem === undefined) {
        this.#took(performance.now() - begun, begun, wanted);
        if (said.length > 0) this.#retried.push(`${wanted.method} ${wanted.path}: ${said.join("; ")}`);
        return;
      }
      said.push(`server ${at + 1}: ${problem}`);
      failedAt[at] = performance.now();
      if (Math.min(...failedAt) > performance.now() - STALE_MS) break;
    }
    const afterS = ((begun - this.#begun) / 1000).toFixed(1);
    this.#failed.push(`at ${afterS} s ${wanted.method} ${wanted.path}: ${said.join("; ")}`);
  }

  #took(ms: number, begun: number, { method, path }: LoadRequest): void {
    this.#times.push(ms);
    if (ms < SLOW_MS) return;
    const afterS = ((begun - this.#begun) / 1000).toFixed(1);
    this.#slow.push({ ms, text: `${ms.toFixed(0)} ms, at ${afterS} s: ${method} ${path}` });
  }

  /** undefined = it was served. */
  #attempt(at: number, { method, path, params }: LoadRequest): Promise<string | undefined> {
    const { token, urls } = this.#credentials;
    const { hostname, port } = new URL(urls[at] ?? "");
    const body = params === undefined ? "" : new URLSearchParams(params).toString();
    const headers = {
      Authorization: `PVEAPIToken=${token}`,
      ...(method === "GET"
        ? {}
        : { "Content-Type": "application/x-www-form-urlencoded", "Content-Length": String(body.length) }),
    };
    return new Promise((resolve) => {
      const asked = request(
        {
          host: hostname,
          port,
          ca: this.#ca,
          agent: this.#agents[at],
          method,
          path: `/api2/json${path}`,
          headers,
        },
        (answer) => {
          const status = answer.statusCode ?? 0;
          answer.resume();
          answer.on("end", () =>
            resolve(status === 200 ? undefined : `${status} ${answer.statusMessage ?? ""}`),
          );
          answer.on("error", (err) => resolve(err.message));
        },
      );
      asked.setTimeout(ATTEMPT_TIMEOUT_MS, () => asked.destroy(new Error("no answer")));
      asked.on("error", (err: NodeJS.ErrnoException) => resolve(err.code ?? err.message));
      asked.end(body);
    });
  }
}
