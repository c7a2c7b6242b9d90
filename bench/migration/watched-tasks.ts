// A client that keeps its line to the server, and hears of the end of tasks instead of asking: what it costs to wait is not a
// part of what is measured.
import { readFileSync } from "node:fs";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { LabCredentials } from "../../test/support/lab.ts";

export class WatchedTasks {
  readonly #client: GpveClient;
  readonly #stop = new AbortController();
  readonly #ended = new Map<string, string>();
  #heard: () => void = () => undefined;

  constructor({ url, caFile, token }: Pick<LabCredentials, "url" | "caFile" | "token">) {
    const transport = new NodeTransport({ url, ca: readFileSync(caFile, "utf8") });
    this.#client = new GpveClient({ transport, credentials: { kind: "token", token }, clock: systemClock });
    background({ error: console.error }, "watching tasks", this.#watch());
  }

  /** Resolves when the work has ended, to its UPID and its exit status. */
  async run(
    path: string,
    params: Readonly<Record<string, string | number>>,
  ): Promise<{ readonly upid: string; readonly exitStatus: string }> {
    const { data } = await this.#client.pve.call("POST", path, params);
    const upid = String(data);
    for (;;) {
      const exitStatus = this.#ended.get(upid);
      if (exitStatus !== undefined) return { upid, exitStatus };
      await new Promise<void>((resolve) => (this.#heard = resolve));
    }
  }

  close(): void {
    this.#stop.abort();
    this.#client.close();
  }

  async #watch(): Promise<void> {
    for await (const { object } of this.#client.v1.watch("tasks", { signal: this.#stop.signal })) {
      const { exitStatus } = object.status as { readonly exitStatus?: string };
      if (exitStatus === undefined) continue;
      this.#ended.set(object.metadata.name, exitStatus);
      this.#heard();
    }
  }
}
