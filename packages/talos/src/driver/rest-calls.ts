// The API over the network, by the public client.
import type { GpveClient } from "@gpve/client/client.ts";
import type { CallValues, PlatformCalls, Verb } from "./platform-calls.ts";

export class RestCalls implements PlatformCalls {
  readonly isRoot = false;
  readonly #client: GpveClient;

  constructor(client: GpveClient) {
    this.#client = client;
  }

  async read(path: string, values: CallValues = {}): Promise<unknown> {
    return (await this.#client.pve.call("GET", path, values)).data;
  }

  async work(verb: Exclude<Verb, "GET">, path: string, values: CallValues = {}): Promise<void> {
    const { data } = await this.#client.pve.call(verb, path, values);
    if (typeof data === "string" && data.startsWith("UPID:")) await this.#client.requireTask(data);
  }

  close(): void {
    this.#client.close();
  }
}
