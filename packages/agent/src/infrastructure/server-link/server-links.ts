// A line to each server that is known, opened and closed as servers come and go.
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { ServerLink } from "./server-link.ts";

type Line = Pick<ServerLink, "start" | "reopen" | "goodbye" | "close">;

export interface ServerLinksDeps<L extends Line> {
  readonly log: Logger;
  readonly open: (endpoint: string) => L;
}

export class ServerLinks<L extends Line = ServerLink> {
  readonly #deps: ServerLinksDeps<L>;
  readonly #links = new Map<string, L>();
  #isUp = false;

  constructor(deps: ServerLinksDeps<L>) {
    this.#deps = deps;
  }

  all(): readonly L[] {
    return [...this.#links.values()];
  }

  /** From now on these. A line to a server that stays is kept. */
  use(endpoints: readonly string[]): void {
    const { log, open } = this.#deps;
    for (const [endpoint, link] of this.#links) {
      if (endpoints.includes(endpoint)) continue;
      this.#links.delete(endpoint);
      background(log, "ending the line to a server that is gone", link.close());
    }
    for (const endpoint of endpoints) {
      if (this.#links.has(endpoint)) continue;
      const link = open(endpoint);
      this.#links.set(endpoint, link);
      if (this.#isUp) link.start();
    }
  }

  start(): void {
    this.#isUp = true;
    for (const link of this.all()) link.start();
  }

  reopen(): void {
    for (const link of this.all()) link.reopen();
  }

  async goodbye(): Promise<void> {
    await Promise.all(this.all().map((link) => link.goodbye()));
  }

  async close(): Promise<void> {
    this.#isUp = false;
    await Promise.all(this.all().map((link) => link.close()));
  }
}
