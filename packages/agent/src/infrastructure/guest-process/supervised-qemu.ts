// One running QEMU: a supervised process with monitors.
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestTap, QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { Qmp } from "@gpve/domain/vm/qmp/qmp.ts";
import { qmpRefused } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { QmpClient } from "../qmp/qmp-client.ts";
import { SupervisedGuest, type SupervisedGuestParts } from "./supervised-guest.ts";

/** Nobody waits for a guest that is off, but its disks are still written: longer than any healthy end takes. */
const CLOSING_PATIENCE_MS = 30_000;

export class SupervisedQemu extends SupervisedGuest implements QemuProcess {
  readonly #client: QmpClient;
  readonly #holds = new Set<symbol>();
  #switchedOff = false;

  constructor(parts: SupervisedGuestParts, client: QmpClient) {
    super(parts);
    this.#client = client;
    void client.ended.then(() => this.look());
    client.events.listen({
      onEvent: (event) => {
        if (event.name === "SHUTDOWN") this.#noteShutdown(event.data);
        if (event.name === "WATCHDOG") this.#noteWatchdog(event.data);
      },
      onReset: () => void this.finishShutdown(),
    });
  }

  get qmp(): Qmp {
    return this.#client;
  }

  async plugTap(netdevId: string, tap: GuestTap & { readonly vhost: boolean }): Promise<void> {
    const { queues = 1, mtu = 0, vhost } = tap;
    const names = (kind: string): string =>
      Array.from({ length: queues }, (_, index) => `${tap.name}${kind}-${index}`).join(":");
    const many = queues > 1 ? "s" : "";
    const command = {
      execute: "netdev_add",
      arguments: {
        type: "tap",
        id: netdevId,
        [`fd${many}`]: names(""),
        vhost,
        ...(vhost ? { [`vhostfd${many}`]: names("-vhost") } : {}),
      },
    };
    const answer = await this.ask([
      "tap",
      tap.name,
      tap.bridge,
      String(mtu),
      String(queues),
      vhost ? "1" : "0",
      this.socketPath("qmp-fd"),
      JSON.stringify(command),
    ]);
    const { error } = JSON.parse(answer) as { error?: { class: string; desc: string } };
    if (error !== undefined) throw qmpRefused(this.label, "netdev_add", error.class, error.desc);
  }

  holdOpen(): () => void {
    const hold = Symbol(this.label);
    this.#holds.add(hold);
    return () => {
      if (this.#holds.delete(hold) && this.#switchedOff) this.#quit();
    };
  }

  /** With -no-shutdown QEMU stays after the guest has switched itself off, also while nobody looks. */
  async finishShutdown(): Promise<void> {
    try {
      const { status } = await this.#client.execute("query-status");
      if (status === "shutdown") this.#noteShutdown({ guest: true, reason: "guest-shutdown" });
    } catch (err) {
      ignore(err, "gone meanwhile: the exit record tells");
    }
  }

  override release(): void {
    super.release();
    this.#client.close();
  }

  protected override async askToEnd(options: CallOptions): Promise<void> {
    await this.#client.execute("quit", undefined, options).catch((err: unknown) => {
      ignore(err, "it may end before it answers, or not answer at all: signals follow");
    });
  }

  #noteShutdown(data: Readonly<Record<string, unknown>>): void {
    if (data["guest"] !== true || this.hasExited) return;
    const reason = typeof data["reason"] === "string" ? data["reason"] : "guest-shutdown";
    this.noteEnd({ by: "guest", reason });
    this.#switchedOff = true;
    this.#quit();
  }

  /** QEMU has already done what the configuration says; a power-off ends it without a word. */
  #noteWatchdog({ action }: Readonly<Record<string, unknown>>): void {
    const { log } = this.parts;
    log.warn({ resource: `qemu/${this.id}`, action }, `the watchdog of ${this.label} was not fed in time`);
    if (action === "poweroff") this.noteEnd({ by: "guest", reason: "watchdog" });
  }

  #quit(): void {
    if (this.#holds.size > 0) return;
    const { clock, log } = this.parts;
    this.#client.execute("quit").catch((err: unknown) => {
      ignore(err, "without -no-shutdown it ends by itself");
    });
    // QEMU may wait for ever for its last write; what the guest wanted kept is on its disks.
    clock.after(CLOSING_PATIENCE_MS, () => {
      if (this.hasExited) return;
      log.warn({ resource: `qemu/${this.id}` }, `${this.label} is off, but QEMU does not end: it is killed`);
      background(log, "killing a QEMU that does not end", this.signal(9));
    });
  }
}
