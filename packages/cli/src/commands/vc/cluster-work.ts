// What its node does for a new cluster, in the words of the task there: Kubernetes that is built for ten minutes is no
// silence, and whoever waits wants to know what for.
import { createHash } from "node:crypto";
import { ignore } from "@gpve/kit/background.ts";
import { tenantKey } from "@gpve/domain/vcluster/cluster-key.ts";
import { DEFAULT_TENANT } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Cli } from "../../command.ts";
import type { VcName } from "./find-vc.ts";

const POLL_MS = 1_000;
const LINES = 200;
/** For whoever looks for it in the task's log; here nobody does. */
const NOISE = /^TASK |: SHA-256 |^no content$/;

export class ClusterWork {
  readonly #cli: Cli;
  readonly #keys: readonly string[];
  #askedAt = -Infinity;
  #task = "";
  #seen = 0;

  constructor(cli: Cli, { name, tenant = DEFAULT_TENANT }: VcName) {
    this.#cli = cli;
    this.#keys = [name, tenantKey({ tenant, name }, (text) => createHash("sha256").update(text).digest())];
  }

  /** Lines that are new. `node`: where it is made; at most once a second, unless it is the last time. */
  async news(node: unknown, isLast: boolean): Promise<readonly string[]> {
    const { clock } = this.#cli.io;
    const isEarly = clock.now() - this.#askedAt < POLL_MS;
    if (typeof node !== "string" || (isEarly && !isLast)) return [];
    this.#askedAt = clock.now();
    try {
      return await this.#lines(node);
    } catch (err) {
      ignore(err, "the phases tell how far it is, also to those who may not see tasks");
      return [];
    }
  }

  async #lines(node: string): Promise<readonly string[]> {
    const { pve } = await this.#cli.client();
    if (this.#task === "") {
      const asked = { node, source: "all", typefilter: "vccreate", limit: LINES } as const;
      const tasks = await pve.list("/nodes/{node}/tasks", asked, { signal: this.#cli.signal });
      // The newest comes first.
      const found = tasks.find(({ id }) => this.#keys.includes(String(id)));
      if (found === undefined) return [];
      this.#task = String(found["upid"]);
    }
    const asked = { node, upid: this.#task, start: this.#seen, limit: LINES };
    const rows = await pve.list("/nodes/{node}/tasks/{upid}/log", asked, { signal: this.#cli.signal });
    const fresh = rows.filter((row) => Number(row["n"]) > this.#seen);
    this.#seen = Math.max(this.#seen, ...fresh.map((row) => Number(row["n"])));
    return fresh.map((row) => String(row["t"])).filter((line) => !NOISE.test(line));
  }
}
