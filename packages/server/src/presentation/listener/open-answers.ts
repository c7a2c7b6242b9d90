// Which requests have not been answered yet: a server that stops lets them end. Whoever has the head of his answer is not
// waited for long: streams and downloads have no end that a stop could wait for.
import type { IncomingMessage, Server, ServerResponse } from "node:http";

const LOOK_EVERY_MS = 20;
/** For the rest of answers whose heads are out. */
const REST_MS = 500;

export class OpenAnswers {
  readonly #open = new Set<ServerResponse>();
  #closing = false;

  constructor(http: Server) {
    http.prependListener("request", (_req: IncomingMessage, answer: ServerResponse) => {
      // Its client asks elsewhere next.
      if (this.#closing) answer.shouldKeepAlive = false;
      this.#open.add(answer);
      answer.once("close", () => this.#open.delete(answer));
    });
  }

  async ended(patienceMs: number): Promise<void> {
    this.#closing = true;
    for (const answer of this.#open) if (!answer.headersSent) answer.shouldKeepAlive = false;
    await until(() => [...this.#open].every((answer) => answer.headersSent), patienceMs);
    await until(() => this.#open.size === 0, Math.min(REST_MS, patienceMs));
  }
}

async function until(holds: () => boolean, patienceMs: number): Promise<void> {
  const end = performance.now() + patienceMs;
  while (!holds() && performance.now() < end)
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
}
