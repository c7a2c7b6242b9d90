// Everything a program needs to talk to one gpve (or PVE) server.
import { Authentication, type Credentials, type Ticket } from "./authentication.ts";
import { PveClient } from "./pve-client.ts";
import { Sender } from "./sender.ts";
import { requireTask, type TaskOutcome, waitTask, type WaitTaskOptions } from "./task-wait.ts";
import type { ClientClock, Transport } from "./transport.ts";
import { V1Client } from "./v1-client.ts";

export interface ClientOptions {
  readonly transport: Transport;
  readonly credentials: Credentials;
  readonly clock: ClientClock;
  readonly onTicket?: (ticket: Ticket) => void;
}

export class GpveClient {
  /** "https://host:8006" */
  readonly origin: string;
  readonly pve: PveClient;
  readonly v1: V1Client;
  readonly #transport: Transport;
  readonly #authentication: Authentication;
  readonly #clock: ClientClock;

  constructor(options: ClientOptions) {
    const { transport, clock } = options;
    this.origin = transport.origin;
    this.#transport = transport;
    this.#clock = clock;
    this.#authentication = new Authentication(options);
    const sender = new Sender({ transport, authentication: this.#authentication });
    this.pve = new PveClient({ sender });
    this.v1 = new V1Client({ sender, clock });
  }

  /** Logs in now and returns the ticket; with a token there is nothing to do but check it. */
  login(): Promise<Ticket> {
    return this.#authentication.ticket();
  }

  /** Resolves when the task has ended, well or not. */
  waitTask(upid: string, options?: WaitTaskOptions): Promise<TaskOutcome> {
    return waitTask({ pve: this.pve, clock: this.#clock }, upid, options);
  }

  /** Resolves when the task has ended well; throws `operation.failed` with its exit status otherwise. */
  requireTask(upid: string, options?: WaitTaskOptions): Promise<TaskOutcome> {
    return requireTask({ pve: this.pve, clock: this.#clock }, upid, options);
  }

  close(): void {
    this.#transport.close();
  }
}
