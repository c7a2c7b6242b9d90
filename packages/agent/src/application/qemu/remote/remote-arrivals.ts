// VMs that come, running, from another cluster. Somebody with a token has made such a VM here, and asks for a line to send
// what it is by: `mtunnel`. Who comes by that line must be the same, and know the line's secret.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import {
  decodeRemoteOffer,
  type RemoteOffer,
  type RemoteTunnel,
} from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import type { Tunnels } from "../../agent.ts";
import { forward } from "../../guest/console-sessions.ts";
import { vmKey } from "../request/vm-tasks.ts";
import { runningVm, type RunningPorts } from "../running-vm.ts";

export const ARRIVE_OPERATION = "qmarrive";

export interface RemoteArrivalPorts extends RunningPorts {
  readonly clock: Clock;
  readonly ids: Ids;
  readonly isSame: (a: string, b: string) => boolean;
  /** A socket that its QEMU serves. */
  readonly connect: (process: QemuProcess, name: string, signal: AbortSignal) => Promise<ConsoleSocket>;
}

/** What the operation does when the other end asks for it. */
export interface RemoteArrivalWork {
  readonly start: (offer: RemoteOffer) => Promise<void>;
  readonly commit: () => Promise<void>;
}

export interface RemoteArrival {
  readonly vmid: number;
  readonly authid: string;
  readonly ticket: string;
  /** Resolves when the operation has begun. */
  readonly work: PromiseWithResolvers<RemoteArrivalWork>;
  /** Aborts when nobody is there any more. */
  readonly gone: AbortController;
  isLed: boolean;
}

type MtunnelRoute = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel";

const SOCKET = /^mtunnel-([0-9a-f-]{36})\.(lead|ram|nbd)$/;
const CLIENT_PATIENCE_MS = 30_000;
/** Between the creation of a VM for a move and the line for it: what is older was made for something else. */
const JUST_MADE_MS = 600_000;
const MAX_LINE_BYTES = 64 * 1024;

export class RemoteArrivals {
  readonly #host: RemoteArrivalPorts;
  readonly #engine: OperationEngine;
  readonly #open = new Map<string, RemoteArrival>();

  constructor(host: RemoteArrivalPorts, engine: OperationEngine) {
    this.#host = host;
    this.#engine = engine;
  }

  find(id: string): RemoteArrival | undefined {
    return this.#open.get(id);
  }

  /** For a VM that was just made: where the move fails it goes again, and one that has a past would be lost. */
  requireJustMade(vmid: number, { meta }: Readonly<Record<string, string>>): void {
    const { ctime } = meta === undefined ? {} : readVmProperty("meta", meta, "meta");
    if (ctime !== undefined && this.#host.clock.now() - ctime * 1_000 < JUST_MADE_MS) return;
    throw conflict(
      `VM ${vmid} was not made for a move: a VM that runs comes only in the place of one that was created within the last ten minutes, which is deleted where the move fails`,
    );
  }

  async offer(vmid: number, authid: string): Promise<RemoteTunnel> {
    const id = this.#host.ids.newUuid();
    const ticket = `${this.#host.ids.newUuid()}${this.#host.ids.newUuid()}`;
    const gone = new AbortController();
    const work = Promise.withResolvers<RemoteArrivalWork>();
    // Nobody may be waiting for it.
    work.promise.catch(() => undefined);
    const arrival: RemoteArrival = { vmid, authid, ticket, work, gone, isLed: false };
    this.#open.set(id, arrival);
    const stopWaiting = this.#host.clock.after(CLIENT_PATIENCE_MS, () => {
      if (!arrival.isLed) gone.abort(conflict("nobody came by the line that was offered"));
    });
    const end = (): void => {
      stopWaiting();
      this.#open.delete(id);
      work.reject(conflict(`VM ${vmid} cannot come here any more`));
    };
    try {
      const { upid } = await this.#engine.submit({
        type: ARRIVE_OPERATION,
        resources: [vmKey(vmid)],
        args: { vmid, session: id },
        actor: authid,
        subject: String(vmid),
      });
      void this.#engine.wait(upid).then(end);
      return { upid, socket: `mtunnel-${id}`, ticket };
    } catch (err) {
      end();
      throw err;
    }
  }

  tunnels(): Tunnels<MtunnelRoute> {
    return {
      "TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel": async (params, authid, input, signal) => {
        const { vmid, socket, ticket } = params;
        const [, id = "", channel = ""] = SOCKET.exec(socket) ?? [];
        const arrival = this.#open.get(id);
        const isKnown =
          arrival?.vmid === vmid && arrival.authid === authid && this.#host.isSame(arrival.ticket, ticket);
        if (arrival === undefined || !isKnown)
          throw new AppError("access.denied", `no such line for VM ${vmid} was offered to ${authid}`);
        const opened = { kind: "mtunnel" } as const;
        if (channel === "lead") return { opened, output: this.#lead(arrival, input, signal) };
        const process = runningVm(this.#host, vmid);
        if (process === undefined) throw conflict(`no QEMU waits for VM ${vmid}`);
        const joined = await this.#host.connect(process, channel, signal);
        const hangUp = (): void => joined.close();
        for (const each of [signal, arrival.gone.signal])
          each.addEventListener("abort", hangUp, { once: true });
        void forward(input, joined);
        return { opened, output: joined.output };
      },
    };
  }

  /** Questions are lines of JSON, and so are answers. When it ends without a commit, the VM does not come. */
  async *#lead(
    arrival: RemoteArrival,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    if (arrival.isLed) throw conflict(`VM ${arrival.vmid} is led by somebody else`);
    arrival.isLed = true;
    const hungUp = (): void => arrival.gone.abort(conflict("the other cluster hung up"));
    signal.addEventListener("abort", hungUp, { once: true });
    try {
      for await (const line of linesOf(input))
        yield Buffer.from(`${JSON.stringify(await answer(arrival, line))}\n`);
    } finally {
      hungUp();
    }
  }
}

async function answer({ work }: RemoteArrival, line: string): Promise<object> {
  try {
    const asked = parseBoundedJson(line) as { readonly start?: unknown; readonly commit?: unknown };
    const { start, commit } = await work.promise;
    if (asked.commit === true) await commit();
    else {
      const offer = decodeRemoteOffer(asked.start);
      if (offer === undefined)
        throw new AppError("request.invalid", "this cluster was asked what it does not know");
      await start(offer);
    }
    return { ok: true };
  } catch (err) {
    return { error: messageOf(err) };
  }
}

async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  for await (const chunk of input) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
      yield rest.subarray(0, end).toString("utf8");
      rest = rest.subarray(end + 1);
    }
    if (rest.length > MAX_LINE_BYTES)
      throw new AppError("request.invalid", "the other cluster sends a line without end");
  }
}
