// The gpve of this machine, whose credentials only its administrator can read: PVE's commands need no login.
import { pveRows } from "@gpve/client/pve-client.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CliIo } from "../io.ts";
import { findTarget, openClient } from "../session/target.ts";
import type { PveSession } from "./command-entry.ts";

export class LocalSession implements PveSession {
  readonly io: CliIo;
  #client: Promise<GpveClient> | undefined;
  #node: Promise<string> | undefined;

  constructor(io: CliIo) {
    this.io = io;
  }

  readonly line = (text: string): void => this.io.stdout.write(`${text}\n`);

  client(): Promise<GpveClient> {
    this.#client ??= this.#open();
    return this.#client;
  }

  node(): Promise<string> {
    this.#node ??= this.#findNode();
    return this.#node;
  }

  async close(): Promise<void> {
    (await this.#client?.catch(() => undefined))?.close();
  }

  /** Contexts and the environment of gpvectl name other servers; these commands are about this machine. */
  async #open(): Promise<GpveClient> {
    const data = this.io.localDataDir;
    if (data === undefined) throw new AppError("config.invalid", "there is no gpve on this machine");
    return openClient(this.io, await findTarget(this.io, { data, outputGiven: false }));
  }

  async #findNode(): Promise<string> {
    const { pve } = await this.client();
    const rows = pveRows((await pve.call("GET", "/cluster/status")).data, "GET /cluster/status");
    const here = rows.find((row) => row["type"] === "node" && row["local"] === 1);
    if (here === undefined) throw new AppError("internal.error", "the server does not name its own node");
    return String(here["name"]);
  }
}
