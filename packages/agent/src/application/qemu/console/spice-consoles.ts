// SPICE consoles of running VMs. QEMU asks every connection for the password of the latest offer, which is good for some
// seconds; a viewer opens one connection per channel, so an offer is not used up by the first.
import { conflict } from "@gpve/domain/request/failures.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { QemuProcess, QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { forward } from "../../guest/console-sessions.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface SpiceConsolesPorts {
  readonly configs: VmConfigs;
  readonly clock: Clock;
  readonly processes: QemuProcesses;
}

export interface SpiceConsolesDeps {
  readonly host: SpiceConsolesPorts;
  readonly connect: (process: QemuProcess, socket: string, signal: AbortSignal) => Promise<ConsoleSocket>;
  /** At most sixty characters: SPICE knows no longer passwords. */
  readonly newPassword: () => string;
}

export interface SpiceOffer {
  readonly password: string;
  /** What viewers call the console. */
  readonly title: string;
}

const PASSWORD_SECONDS = 30;
/** Channels may come a moment after the password was checked for the first. */
const OFFER_MS = 60_000;

export class SpiceConsoles {
  readonly #deps: SpiceConsolesDeps;
  readonly #offeredUntil = new Map<number, number>();
  readonly #open = new Set<ConsoleSocket>();

  constructor(deps: SpiceConsolesDeps) {
    this.#deps = deps;
  }

  async offer(vmid: number, signal: AbortSignal): Promise<SpiceOffer> {
    const { host } = this.#deps;
    const { values } = host.configs.get(vmid);
    const process = requireProcess(host, vmid);
    const state = await process.qmp.execute("query-spice", undefined, { signal });
    if (state["enabled"] !== true) throw conflict("no spice port");
    const password = this.#deps.newPassword();
    await process.qmp.execute("set_password", { protocol: "spice", password }, { signal });
    const time = `+${PASSWORD_SECONDS}`;
    await process.qmp.execute("expire_password", { protocol: "spice", time }, { signal });
    this.#offeredUntil.set(vmid, host.clock.now() + OFFER_MS);
    const name = values["name"];
    return { password, title: `VM ${vmid}${name === undefined ? "" : ` - ${name}`}` };
  }

  /** One channel of a viewer. */
  async open(
    vmid: number,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly opened: { readonly kind: "spice" }; readonly output: AsyncIterable<Uint8Array> }> {
    const { host } = this.#deps;
    if ((this.#offeredUntil.get(vmid) ?? 0) < host.clock.now())
      throw conflict(`no SPICE console of VM ${vmid} was offered`);
    const socket = await this.#deps.connect(requireProcess(host, vmid), "spice", signal);
    this.#open.add(socket);
    void socket.closed.then(() => this.#open.delete(socket));
    signal.addEventListener("abort", () => socket.close(), { once: true });
    if (signal.aborted) socket.close();
    void forward(input, socket);
    return { opened: { kind: "spice" }, output: socket.output };
  }

  close(): void {
    for (const socket of this.#open) socket.close();
  }
}

function requireProcess(host: SpiceConsolesPorts, vmid: number): QemuProcess {
  const process = runningVm(host, vmid);
  if (process === undefined) throw conflict(`VM ${vmid} not running`);
  return process;
}
