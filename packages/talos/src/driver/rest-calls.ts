// The API over the network, by the public client.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { GpveClient } from "@gpve/client/client.ts";
import { consoleOffer } from "@gpve/client/pve-client.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { CallValues, PlatformCalls, UploadValues, Verb } from "./platform-calls.ts";

const WELCOME = "OK";

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
    await this.#finish(data);
  }

  async upload(path: string, { filename, ...fields }: UploadValues, file: string): Promise<void> {
    const { size } = await stat(file);
    const open = () => createReadStream(file, { highWaterMark: 1024 * 1024 });
    const form = { fields, file: { field: "filename", name: filename, size, open } };
    await this.#finish((await this.#client.pve.upload(path, form, { timeoutMs: 0 })).data);
  }

  async #finish(data: unknown): Promise<void> {
    if (typeof data === "string" && data.startsWith("UPID:")) await this.#client.requireTask(data);
  }

  async make(path: string, values: CallValues = {}): Promise<unknown> {
    return (await this.#client.pve.call("POST", path, values)).data;
  }

  async listen(guest: string, heard: (bytes: Uint8Array) => void): Promise<() => void> {
    const { pve } = this.#client;
    const offer = consoleOffer((await pve.call("POST", `${guest}/termproxy`, {})).data);
    const socket = await pve.openConsole(`${guest}/vncwebsocket`, offer);
    await socket.send(`${offer.user}:${offer.ticket}\n`);
    const hearing = async (): Promise<void> => {
      // The line begins after its welcome.
      let skipped = WELCOME.length;
      for await (const message of socket.messages) {
        const rest = message.subarray(skipped);
        skipped = Math.max(0, skipped - message.length);
        if (rest.length > 0) heard(rest);
      }
    };
    hearing().catch((err: unknown) => ignore(err, "what was heard before stays"));
    return () => socket.close();
  }

  close(): void {
    this.#client.close();
  }
}
