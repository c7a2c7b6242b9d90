// Consoles of running VMs. An offer is made first, and is good for one client within some seconds; the client then
// comes through a tunnel. Every offer is a task that ends with the console.
import { AppError } from "@gpve/contracts/errors.ts";
import type { OpenTunnel } from "@gpve/domain/node/agent-port.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { VgaOptions } from "@gpve/domain/vm/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/vm-properties.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { runningVm, type VmHost } from "./vm-host.ts";

export type ConsoleKind = "vnc" | "terminal";

export interface ConsolesDeps {
  readonly host: VmHost;
  readonly engine: OperationEngine;
  readonly connect: (process: GuestProcess, socket: string, signal: AbortSignal) => Promise<ConsoleSocket>;
  /** Eight characters: VNC knows no longer passwords. */
  readonly newPassword: () => string;
}

export interface ConsoleOffer {
  readonly port: number;
  readonly upid: string;
  readonly password: string;
}

interface Session {
  readonly port: number;
  readonly vmid: number;
  readonly kind: ConsoleKind;
  readonly socket: string;
  readonly authid: string;
  readonly password: string;
  isTaken: boolean;
  end: (failure?: AppError) => void;
  readonly ended: Promise<AppError | undefined>;
}

interface ConsoleArgs {
  readonly vmid: number;
  readonly port: number;
}

const FIRST_PORT = 5900;
const LAST_PORT = 5999;
const CLIENT_PATIENCE_MS = 10_000;
const PASSWORD_SECONDS = 30;

export class Consoles {
  readonly #deps: ConsolesDeps;
  readonly #sessions = new Map<number, Session>();
  /** Serial ports have one listener: the latest. */
  readonly #serials = new Map<string, Session>();
  #lastPort = LAST_PORT;

  constructor(deps: ConsolesDeps) {
    this.#deps = deps;
    deps.engine.register(this.#operation());
  }

  async offer(request: {
    readonly vmid: number;
    readonly kind: ConsoleKind;
    readonly serial?: string;
    readonly authid: string;
    readonly traceparent?: string;
  }): Promise<ConsoleOffer> {
    const { vmid, kind, authid } = request;
    const { host, engine, newPassword } = this.#deps;
    const { values } = host.configs.get(vmid);
    const socket = kind === "vnc" ? screenOf(vmid, values) : serialOf(values, request.serial);
    if (runningVm(host, vmid) === undefined) throw refused(`VM ${vmid} not running`);
    const port = this.#freePort();
    const { promise: ended, resolve } = Promise.withResolvers<AppError | undefined>();
    const session: Session = {
      port,
      vmid,
      kind,
      socket,
      authid,
      password: newPassword(),
      isTaken: false,
      end: resolve,
      ended,
    };
    this.#sessions.set(port, session);
    const stopWaiting = host.clock.after(CLIENT_PATIENCE_MS, () => {
      if (!session.isTaken) session.end(refused("connection timed out"));
    });
    void ended.then(() => {
      stopWaiting();
      this.#sessions.delete(port);
    });
    try {
      const { upid } = await engine.submit({
        type: "vncproxy",
        resources: [`console/${port}`],
        args: { vmid, port },
        actor: authid,
        subject: String(vmid),
        ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
      });
      return { port, upid, password: session.password };
    } catch (err) {
      session.end();
      throw err;
    }
  }

  /** Joins a client to what was offered on this port. */
  async open(
    request: { readonly vmid: number; readonly port: number; readonly authid: string },
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<OpenTunnel> {
    const session = this.#sessions.get(request.port);
    if (session === undefined || session.vmid !== request.vmid || session.authid !== request.authid)
      throw refused(`no console waits on port ${request.port}`);
    if (session.isTaken) throw refused(`the console on port ${request.port} is in use`);
    session.isTaken = true;
    try {
      const process = runningVm(this.#deps.host, session.vmid);
      if (process === undefined) throw refused(`VM ${session.vmid} not running`);
      if (session.kind === "vnc") await setPassword(process, session.password, signal);
      else this.#takeSerial(session);
      const socket = await this.#deps.connect(process, session.socket, signal);
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

  #takeSerial(session: Session): void {
    const key = `${session.vmid}/${session.socket}`;
    this.#serials.get(key)?.end();
    this.#serials.set(key, session);
    void session.ended.then(() => {
      if (this.#serials.get(key) === session) this.#serials.delete(key);
    });
  }

  #freePort(): number {
    const count = LAST_PORT - FIRST_PORT + 1;
    for (let step = 1; step <= count; step++) {
      const port = FIRST_PORT + ((this.#lastPort - FIRST_PORT + step) % count);
      if (this.#sessions.has(port)) continue;
      this.#lastPort = port;
      return port;
    }
    throw refused("unable to find free port (5900-5999)");
  }

  #operation(): OperationDefinition<ConsoleArgs> {
    return {
      type: "vncproxy",
      idle: true,
      steps: [
        {
          name: "console",
          run: async ({ args, signal, log }) => {
            const session = this.#sessions.get(args.port);
            if (session === undefined || session.vmid !== args.vmid) return;
            log(`starting ${session.kind} console of VM ${args.vmid}`);
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
}

/** For one connection: later ones have passwords of their own. */
async function setPassword(process: GuestProcess, password: string, signal: AbortSignal): Promise<void> {
  await process.qmp.execute("set_password", { protocol: "vnc", password, connected: "keep" }, { signal });
  await process.qmp.execute("expire_password", { protocol: "vnc", time: `+${PASSWORD_SECONDS}` }, { signal });
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

function displayOf(values: VmValues): string {
  const text = values["vga"];
  return text === undefined ? "std" : ((readVmProperty("vga", text, "vga") as VgaOptions).type ?? "std");
}

function screenOf(vmid: number, values: VmValues): string {
  const type = displayOf(values);
  if (type === "none" || type.startsWith("serial")) {
    throw new AppError(
      "feature.unsupported",
      `VM ${vmid} has no screen (vga: ${type})${type === "none" ? "" : ": use termproxy"}`,
    );
  }
  return "vnc";
}

function serialOf(values: VmValues, wanted: string | undefined): string {
  const display = displayOf(values);
  const found =
    wanted ??
    (display.startsWith("serial") ? display : undefined) ??
    ["serial0", "serial1", "serial2", "serial3"].find((key) => values[key] === "socket");
  if (found === undefined) throw refused("unable to find a serial interface");
  if (values[found] !== "socket") throw refused(`unable to find serial interface '${found}'`);
  return found;
}

function refused(message: string): AppError {
  return new AppError("object.conflict", message, { pveStatus: 500 });
}
