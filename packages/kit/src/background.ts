import { messageOf } from "@gpve/contracts/errors.ts";

export interface FailureLog {
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** Lets a promise run on its own and records its failure. Every promise is awaited, returned, or given to this. */
export function background(log: FailureLog, what: string, task: Promise<unknown>): void {
  task.catch((err: unknown) => log.error({ err: messageOf(err) }, `${what} failed`));
}

/** Marks a failure as expected and harmless, with the reason. */
export function ignore(_err: unknown, _why: string): void {}
