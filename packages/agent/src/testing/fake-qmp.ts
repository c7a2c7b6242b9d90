// A monitor without QEMU: it answers as told, and keeps the contract that the real one keeps (qmp-conformance.ts).
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import type { Qmp } from "@gpve/domain/vm/qmp/qmp.ts";
import { qmpCancelled, qmpLost, qmpRefused, qmpTimeout } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { QmpEvents } from "../infrastructure/qmp/qmp-events.ts";

export type FakeQmpAnswer = (args: Readonly<Record<string, unknown>>) => unknown;

/** A refusal by QEMU, with its text. */
export class Refused extends Error {}

export class FakeQmp implements Qmp {
  readonly label: string;
  readonly clock = systemClock;
  readonly commands: { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[] = [];
  readonly answers: Map<string, FakeQmpAnswer>;
  readonly events = new QmpEvents(systemClock);
  readonly #ended = Promise.withResolvers<undefined>();
  #hasEnded = false;

  constructor(label: string, answers: ReadonlyMap<string, FakeQmpAnswer>) {
    this.label = label;
    this.answers = new Map(answers);
  }

  /** As if QEMU had said it. */
  emit(name: string, data: Readonly<Record<string, unknown>>): void {
    this.events.emit({ name, data, at: 0 });
  }

  /** QEMU is gone. */
  end(): void {
    this.#hasEnded = true;
    this.#ended.resolve(undefined);
    this.events.end();
  }

  async raw(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    { timeoutMs = 10_000, signal }: CallOptions = {},
  ): Promise<unknown> {
    if (this.#hasEnded) throw qmpLost(this.label, name);
    if (signal?.aborted === true) throw qmpCancelled(this.label, name);
    this.commands.push({ name, args });
    const gone = Promise.withResolvers<never>();
    const onAbort = (): void => gone.reject(qmpCancelled(this.label, name));
    signal?.addEventListener("abort", onAbort, { once: true });
    const stop = this.clock.after(timeoutMs, () => gone.reject(qmpTimeout(this.label, name, timeoutMs)));
    const answered = this.#answer(name, args);
    const ended = this.#ended.promise.then(() => {
      throw qmpLost(this.label, name);
    });
    try {
      return await Promise.race([answered, gone.promise, ended]);
    } finally {
      stop();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  readonly execute = ((name: string, args?: Readonly<Record<string, unknown>>, options?: CallOptions) =>
    this.raw(name, args ?? {}, options)) as Qmp["execute"];

  async #answer(name: string, args: Readonly<Record<string, unknown>>): Promise<unknown> {
    const answer = this.answers.get(name);
    if (answer === undefined) throw qmpRefused(this.label, name, "CommandNotFound", `no ${name}`);
    try {
      return await answer(args);
    } catch (err) {
      if (err instanceof Refused) throw qmpRefused(this.label, name, "GenericError", err.message);
      throw err;
    }
  }
}
