// Three tenants that make guests at once through both faces, and what one asks about them meanwhile.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import type { Credentials } from "./gpve.ts";

export interface QuotaAnswer {
  readonly status: number;
  readonly message: string;
  readonly data: unknown;
  readonly json: Readonly<Record<string, unknown>>;
}

export const object = (kind: string, metadata: object, spec: object) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata,
  spec,
});

/** JSON on both faces, over few connections, as somebody who may do everything. */
export class QuotaClient {
  readonly #credentials: () => Credentials;
  readonly #agent: Agent;

  /** They are asked again for each call: a server that comes back may have another port. */
  constructor(credentials: () => Credentials) {
    this.#credentials = credentials;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 20, ca: readFileSync(credentials().caFile) });
  }

  close(): void {
    this.#agent.destroy();
  }

  api2(method: string, path: string, body?: unknown): Promise<QuotaAnswer> {
    return this.#call(method, `/api2/json${path}`, body);
  }

  v1(method: string, path: string, body?: unknown): Promise<QuotaAnswer> {
    return this.#call(method, `/api/v1${path}`, body);
  }

  async node(): Promise<string> {
    const nodes = (await this.api2("GET", "/nodes")).data as readonly { node: string }[];
    return nodes[0]?.node ?? "";
  }

  /** How its task ended. */
  async done(answer: QuotaAnswer): Promise<string> {
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.message}`);
    const upid = String(answer.data);
    const path = `/nodes/${upid.split(":")[1] ?? ""}/tasks/${encodeURIComponent(upid)}/status`;
    for (;;) {
      const { status, exitstatus } = (await this.api2("GET", path)).data as Record<string, string>;
      if (status === "stopped") return exitstatus ?? "";
      await sleep(100);
    }
  }

  /** What counts against a quota, by the ledger. */
  async used(name: string): Promise<Readonly<Record<string, unknown>>> {
    const { json } = await this.v1("GET", `/resourcequotas/${encodeURIComponent(name)}`);
    const { used: of } = json["status"] as { used: { limits?: object; requests?: object } };
    return { ...of.limits, running: of.requests };
  }

  /** Guests of a tenant and of those in it, by the list of all guests. */
  async there(tenant: string): Promise<number> {
    const rows = (await this.api2("GET", "/cluster/resources?type=vm")).data as readonly {
      pool?: string;
      template?: number;
    }[];
    return rows.filter(
      ({ pool = "", template }) => template !== 1 && (pool === tenant || pool.startsWith(`${tenant}/`)),
    ).length;
  }

  /** Tasks that have not ended. */
  async atWork(): Promise<number> {
    const tasks = (await this.api2("GET", "/cluster/tasks")).data as readonly { endtime?: number }[];
    return tasks.filter(({ endtime }) => endtime === undefined).length;
  }

  #call(method: string, path: string, body?: unknown): Promise<QuotaAnswer> {
    const { url, token } = this.#credentials();
    const headers = {
      Authorization: `PVEAPIToken=${token}`,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    };
    return new Promise((done, fail) => {
      const req = request(new URL(path, url), { method, agent: this.#agent, headers }, (res) => {
        let text = "";
        res.on("data", (chunk: Buffer) => (text += chunk.toString()));
        res.on("error", fail);
        res.on("end", () => {
          const json = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
          const said = json as { readonly message?: string; readonly detail?: string };
          const message = said.message ?? said.detail ?? res.statusMessage ?? "";
          done({ status: res.statusCode ?? 0, message, data: json["data"], json });
        });
      });
      req.on("error", fail);
      req.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}
