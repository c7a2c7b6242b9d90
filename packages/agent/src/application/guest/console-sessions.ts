// Consoles that were offered and consoles that are open. An offer is good for one client within some seconds; the client
// then comes through a tunnel. Every offer is a task that ends with the console.
import { conflict } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { ConsoleOpened } from "@gpve/contracts/agent/agent-messages.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";

export interface ConsoleOffer {
  readonly port: number;
  readonly upid: string;
  readonly password: string;
}

export interface NewSession {
  /** Whose console it is: "/vms/100", "/nodes/n1". */
  readonly owner: string;
  /** How its bytes are to be read. */
  readonly kind: "vnc" | "terminal" | "shell";
  readonly authid: string;
  readonly password: string;
  /** Joins the client; rejects with AppError when it cannot be. */
  readonly join: (session: Session, signal: AbortSignal) => Promise<ConsoleSocket>;
}

export interface Session extends NewSession {
  readonly port: number;
  isTaken: boolean;
  end: (failure?: AppError) => void;
  readonly ended: Promise<AppError | undefined>;
}

interface TaskDetails {
  readonly type: "vncproxy" | "vncshell";
  readonly subject: string;
  readonly traceparent?: string;
}

export interface ConsoleArgs {
  readonly owner: string;
  readonly port: number;
}

/** Of the hundred ports: enough for any screen full of consoles, too few to keep others out. */
const MOST_PER_USER = 25;
const FIRST_PORT = 5900;
const LAST_PORT = 5999;
const CLIENT_PATIENCE_MS = 10_000;

export class ConsoleSessions {
  readonly #clock: Clock;
  readonly #engine: OperationEngine;
  readonly #sessions = new Map<number, Session>();
  #lastPort = LAST_PORT;

  constructor(deps: { readonly clock: Clock; readonly engine: OperationEngine }) {
    this.#clock = deps.clock;
    this.#engine = deps.engine;
  }

  async offer(wanted: NewSession, task: TaskDetails): Promise<ConsoleOffer> {
    this.#requireRoomFor(wanted.authid);
    const port = this.#freePort();
    const { promise: ended, resolve } = Promise.withResolvers<AppError | undefined>();
    const session: Session = { ...wanted, port, isTaken: false, end: resolve, ended };
    this.#sessions.set(port, session);
    const stopWaiting = this.#clock.after(CLIENT_PATIENCE_MS, () => {
      if (!session.isTaken) session.end(conflict("connection timed out"));
    });
    void ended.then(() => {
      stopWaiting();
      this.#sessions.delete(port);
    });
    try {
      const { upid } = await this.#engine.submit({
        type: task.type,
        resources: [`console/${port}`],
        args: { owner: wanted.owner, port },
        actor: wanted.authid,
        subject: task.subject,
        ...given({ traceparent: task.traceparent }),
      });
      return { port, upid, password: session.password };
    } catch (err) {
      session.end();
      throw err;
    }
  }

  /** Joins a client to what was offered on this port. */
  async open(
    request: { readonly owner: string; readonly port: number; readonly authid: string },
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly opened: ConsoleOpened; readonly output: AsyncIterable<Uint8Array> }> {
    const session = this.#sessions.get(request.port);
    if (session === undefined || session.owner !== request.owner || session.authid !== request.authid)
      throw conflict(`no console waits on port ${request.port}`);
    if (session.isTaken) throw conflict(`the console on port ${request.port} is in use`);
    session.isTaken = true;
    try {
      const socket = await session.join(session, signal);
      void socket.closed.then(() => session.end());
      void session.ended.then(() => socket.close());
      const onAbort = (): void => session.end();
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      void forward(input, socket).finally(() => session.end());
      return { opened: { kind: session.kind }, output: socket.output };
    } catch (err) {
      session.end(err instanceof AppError ? err : undefined);
      throw err;
    }
  }

  close(): void {
    for (const session of this.#sessions.values()) session.end();
  }

  /** The task that lasts as long as a console. */
  operation(type: TaskDetails["type"]): OperationDefinition<ConsoleArgs> {
    return {
      type,
      idle: true,
      steps: [
        {
          name: "console",
          run: async ({ args, signal, log }) => {
            const session = this.#sessions.get(args.port);
            if (session === undefined || session.owner !== args.owner) return;
            const whose = args.owner.replace("/vms/", "VM ").replace("/nodes/", "node ");
            log(`starting ${session.kind} console of ${whose}`);
            const onAbort = (): void => session.end();
            signal.addEventListener("abort", onAbort, { once: true });
            if (signal.aborted) onAbort();
            const failure = await session.ended;
            signal.removeEventListener("abort", onAbort);
            signal.throwIfAborted();
            if (failure !== undefined) throw failure;
          },
        },
      ],
    };
  }

  /** Tokens of a user count as the user: one more token must not be one more share. */
  #requireRoomFor(authid: string): void {
    const userOf = (each: string): string => each.split("!", 1)[0] ?? "";
    const user = userOf(authid);
    const held = [...this.#sessions.values()].filter((session) => userOf(session.authid) === user);
    if (held.length < MOST_PER_USER) return;
    throw conflict(
      `cannot offer a console to ${user}: ${held.length} of theirs are open or waiting on this node, which is the most one user may have; close some, or wait ${CLIENT_PATIENCE_MS / 1000} s for those that nobody joined`,
    );
  }

  #freePort(): number {
    const count = LAST_PORT - FIRST_PORT + 1;
    for (let step = 1; step <= count; step++) {
      const port = FIRST_PORT + ((this.#lastPort - FIRST_PORT + step) % count);
      if (this.#sessions.has(port)) continue;
      this.#lastPort = port;
      return port;
    }
    throw conflict("unable to find free port (5900-5999)");
  }
}

/** Until either side ends. */
export async function forward(input: AsyncIterable<Uint8Array>, socket: ConsoleSocket): Promise<void> {
  try {
    for await (const chunk of input) await socket.write(chunk);
  } catch {
    // The client is gone, or spoke nonsense: either way this console ends.
  } finally {
    socket.close();
  }
}
