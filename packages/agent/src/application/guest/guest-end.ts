// What happens when a process of a guest has ended, by whatever cause: it is told, what it leaves behind is put right,
// and it is forgotten, so that the next agent does not find it again.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { EndedGuest } from "@gpve/domain/guest/guest-processes.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";

/** One thing to put right; those of one guest do not wait for each other. */
export interface EndWork {
  /** For the log, should it fail. */
  readonly what: string;
  readonly run: (vmid: number, say: (line: string) => void) => Promise<void>;
}

export interface ProcessEndWork {
  readonly what: string;
  readonly run: (id: string) => Promise<void>;
}

export interface GuestEndPorts {
  readonly processes: {
    onExit(listener: (ended: EndedGuest) => void): () => void;
    forget(id: string): Promise<void>;
  };
  readonly log: Logger;
  /** What a guest is, as logs name it ("qemu"), and what is to be done for it, not for its helpers. */
  readonly kindOf: (vmid: number) => { readonly type: string; readonly atEnd: readonly EndWork[] };
  /** For every process, helpers included. */
  readonly ofEach: readonly ProcessEndWork[];
}

/** Returns the function that stops looking. */
export function watchEnds({ processes, log, kindOf, ofEach }: GuestEndPorts): () => void {
  return processes.onExit((ended) => {
    const { id } = ended;
    const { type, atEnd } = kindOf(Number.parseInt(id, 10));
    const resource = `${type}/${id}`;
    tell(log, resource, ended);
    background(log, "clearing up after a guest", forget(processes, id));
    // One that cannot even begin, as while no server is in reach, keeps no other from its turn.
    for (const { what, run } of ofEach)
      background(
        log,
        what,
        begin(() => run(id)),
      );
    if (!/^\d+$/.test(id)) return;
    const say = (line: string): void => log.info({ resource }, line);
    for (const { what, run } of atEnd)
      background(
        log,
        what,
        begin(() => run(Number(id), say)),
      );
  });
}

function tell(log: Logger, resource: string, { label, exit }: EndedGuest): void {
  const { cause, reason, exitCode, signal, outOfMemory, lastWords } = exit;
  const facts = { resource, cause, reason, exitCode, signal, outOfMemory };
  if (cause === "shutdown" || cause === "stopped") log.info(facts, `${label} has ended`);
  else log.warn({ ...facts, lastWords }, `${label} has ended`);
}

async function begin(run: () => Promise<void>): Promise<void> {
  await run();
}

async function forget(processes: GuestEndPorts["processes"], id: string): Promise<void> {
  try {
    await processes.forget(id);
  } catch (err) {
    if (!isAppError(err, "object.conflict")) throw err;
    ignore(err, "it is being started again");
  }
}
