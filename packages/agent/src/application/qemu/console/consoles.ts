// Consoles of running VMs: their screens and serial lines.
import { conflict } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { QemuProcess, QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { VgaOptions } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { type ConsoleOffer, type ConsoleSessions, type Session } from "../../guest/console-sessions.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface ConsolesPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

export type ConsoleKind = "vnc" | "terminal";

export interface ConsolesDeps {
  readonly host: ConsolesPorts;
  readonly engine: Pick<OperationEngine, "register">;
  readonly sessions: ConsoleSessions;
  readonly connect: (process: QemuProcess, socket: string, signal: AbortSignal) => Promise<ConsoleSocket>;
  /** Eight characters: VNC knows no longer passwords. */
  readonly newPassword: () => string;
}

const PASSWORD_SECONDS = 30;

export class Consoles {
  readonly #deps: ConsolesDeps;
  /** Serial ports have one listener: the latest. */
  readonly #serials = new Map<string, Session>();

  constructor(deps: ConsolesDeps) {
    this.#deps = deps;
    deps.engine.register(deps.sessions.operation("vncproxy"));
  }

  async offer(request: {
    readonly vmid: number;
    readonly kind: ConsoleKind;
    readonly serial?: string;
    readonly authid: string;
    readonly traceparent?: string;
  }): Promise<ConsoleOffer> {
    const { vmid, kind, authid } = request;
    const { host, sessions, newPassword } = this.#deps;
    const { values } = host.configs.get(vmid);
    const socket = kind === "vnc" ? screenOf(vmid, values) : serialOf(values, request.serial);
    if (runningVm(host, vmid) === undefined) throw conflict(`VM ${vmid} not running`);
    return sessions.offer(
      {
        owner: `/vms/${vmid}`,
        kind,
        authid,
        password: newPassword(),
        join: (session, signal) => this.#join(vmid, socket, session, signal),
      },
      {
        type: "vncproxy",
        subject: String(vmid),
        ...given({ traceparent: request.traceparent }),
      },
    );
  }

  async #join(vmid: number, socket: string, session: Session, signal: AbortSignal): Promise<ConsoleSocket> {
    const process = runningVm(this.#deps.host, vmid);
    if (process === undefined) throw conflict(`VM ${vmid} not running`);
    if (session.kind === "vnc") await setPassword(process, session.password, signal);
    else this.#takeSerial(`${vmid}/${socket}`, session);
    return this.#deps.connect(process, socket, signal);
  }

  #takeSerial(key: string, session: Session): void {
    this.#serials.get(key)?.end();
    this.#serials.set(key, session);
    void session.ended.then(() => {
      if (this.#serials.get(key) === session) this.#serials.delete(key);
    });
  }
}

/** For one connection: later ones have passwords of their own. */
async function setPassword(process: QemuProcess, password: string, signal: AbortSignal): Promise<void> {
  await process.qmp.execute("set_password", { protocol: "vnc", password, connected: "keep" }, { signal });
  await process.qmp.execute("expire_password", { protocol: "vnc", time: `+${PASSWORD_SECONDS}` }, { signal });
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
  if (found === undefined) throw conflict("unable to find a serial interface");
  if (values[found] !== "socket") throw conflict(`unable to find serial interface '${found}'`);
  return found;
}
