// Lines to TCP ports of running VMs, for whoever may use their consoles. Who that is was decided before; here they are
// bounded, and end with the VM, with silence and with whoever asked.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { GuestPortOpened } from "@gpve/contracts/agent/agent-messages.ts";
import type { GuestDialer } from "@gpve/domain/guest/guest-lines.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { listNets, type VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Tunnels } from "../../agent.ts";
import { forward } from "../../guest/console-sessions.ts";
import { runningVm, type RunningPorts } from "../running-vm.ts";

export interface GuestLinesDeps {
  readonly host: RunningPorts & {
    readonly configs: { get(vmid: number): { readonly values: VmValues } };
    readonly network: Pick<VmNetwork, "tapOf" | "tapsMissing">;
  };
  readonly dialer: GuestDialer;
  readonly clock: Pick<Clock, "monotonic" | "after">;
}

export interface LineRequest {
  readonly vmid: number;
  readonly port: number;
  readonly address?: string;
  readonly authid: string;
}

interface Line {
  readonly vmid: number;
  /** Tokens of a user count as the user. */
  readonly user: string;
  end: () => void;
}

export const MOST_PER_GUEST = 32;
export const MOST_PER_USER = 128;
/** Without a byte in either direction. */
export const IDLE_MS = 15 * 60_000;

export class GuestLines {
  readonly #deps: GuestLinesDeps;
  readonly #lines = new Set<Line>();

  constructor(deps: GuestLinesDeps) {
    this.#deps = deps;
  }

  async open(
    request: LineRequest,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<{ readonly opened: GuestPortOpened; readonly output: AsyncIterable<Uint8Array> }> {
    const { vmid, port } = request;
    const { host, dialer } = this.#deps;
    const wanted = `a line to port ${port} of VM ${vmid}`;
    const { values } = host.configs.get(vmid);
    const process = runningVm(host, vmid);
    if (process === undefined) throw conflict(`cannot open ${wanted}: it does not run; start it first`);
    const { tapsMissing } = host.network;
    if (tapsMissing !== undefined)
      throw new AppError(
        "feature.unsupported",
        `cannot open ${wanted}: cards of VMs are on user-mode networks here (${tapsMissing}), and the node sees no addresses there; run gpve as root, or reach the VM by its port of user-mode networking`,
      );
    const line = this.#reserve(request, wanted);
    try {
      const { address, socket } = await dialer.dial(
        {
          label: `VM ${vmid}`,
          cards: listNets(values).flatMap(({ key, net }) =>
            // Without a bridge it has no tap, and one of that name is another installation's.
            net.macaddr === undefined || net.bridge === undefined
              ? []
              : [{ key, mac: net.macaddr, tap: host.network.tapOf(vmid, key), ...given({ tag: net.tag }) }],
          ),
          port,
          ...given({ address: request.address }),
        },
        signal,
      );
      line.end = () => socket.close();
      const idle = this.#watchIdle(line);
      void socket.closed.then(() => {
        idle.stop();
        this.#lines.delete(line);
      });
      void process.exited.then(line.end);
      signal.addEventListener("abort", line.end, { once: true });
      if (signal.aborted || process.hasExited) line.end();
      void forward(noticed(input, idle.touch), socket);
      return { opened: { kind: "port", address }, output: noticed(socket.output, idle.touch) };
    } catch (err) {
      this.#lines.delete(line);
      throw err;
    }
  }

  tunnels(): Tunnels<"TUNNEL /gpve/nodes/{node}/vms/{vmid}/port"> {
    return {
      "TUNNEL /gpve/nodes/{node}/vms/{vmid}/port": ({ vmid, port, address }, authid, input, signal) =>
        this.open({ vmid, port, authid, ...given({ address }) }, input, signal),
    };
  }

  close(): void {
    for (const line of this.#lines) line.end();
  }

  #reserve({ vmid, authid }: LineRequest, wanted: string): Line {
    const user = authid.split("!", 1)[0] ?? "";
    const all = [...this.#lines];
    const ofGuest = all.filter((line) => line.vmid === vmid).length;
    const ofUser = all.filter((line) => line.user === user).length;
    if (ofGuest >= MOST_PER_GUEST)
      throw conflict(
        `cannot open ${wanted}: ${ofGuest} are open to it, which is the most a VM may have; close some`,
      );
    if (ofUser >= MOST_PER_USER)
      throw conflict(
        `cannot open ${wanted}: ${user} has ${ofUser} lines on this node, which is the most one user may have; close some`,
      );
    const line: Line = { vmid, user, end: () => undefined };
    this.#lines.add(line);
    return line;
  }

  #watchIdle(line: Line): { readonly touch: () => void; readonly stop: () => void } {
    const { clock } = this.#deps;
    let last = clock.monotonic();
    let cancel: () => void = () => undefined;
    const look = (): void => {
      const left = last + IDLE_MS - clock.monotonic();
      if (left <= 0) line.end();
      else cancel = clock.after(left, look);
    };
    look();
    return { touch: () => void (last = clock.monotonic()), stop: () => cancel() };
  }
}

async function* noticed(chunks: AsyncIterable<Uint8Array>, notice: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    notice();
    yield chunk;
  }
}
