// Guests and their helpers of a node, with what QEMU has beside: its uuid over QMP proves who it is.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { background } from "@gpve/kit/background.ts";
import { QmpClient } from "../qmp/qmp-client.ts";
import { isRunning } from "./exit-watch.ts";
import type { SupervisedGuest, SupervisedGuestParts } from "./supervised-guest.ts";
import { ADOPT_TIMEOUT_MS, SupervisedGuests, type ConnectOptions } from "./supervised-guests.ts";
import { SupervisedQemu } from "./supervised-qemu.ts";

export class SupervisedQemus extends SupervisedGuests implements QemuProcesses {
  async startQemu(start: QemuStart, options: CallOptions = {}): Promise<QemuProcess> {
    const { uuid } = start;
    const kind = { monitors: true, ...given({ uuid }) };
    return asQemu(await this.startAs(start, kind, options));
  }

  qemu(id: string): QemuProcess | undefined {
    const found = this.get(id);
    return found instanceof SupervisedQemu ? found : undefined;
  }

  protected override async connect(
    parts: SupervisedGuestParts,
    options: ConnectOptions,
  ): Promise<SupervisedGuest> {
    const { card } = parts;
    if (card.monitors !== true) return super.connect(parts, options);
    const client = await QmpClient.open({
      ...this.#monitorsOf(parts),
      connectTimeoutMs: options.timeoutMs,
      ...given({ signal: options.signal }),
    });
    try {
      const { UUID: uuid } = await client.execute("query-uuid");
      if (card.uuid !== undefined && uuid.toLowerCase() !== card.uuid.toLowerCase())
        throw new AppError(
          "internal.error",
          `the process at the monitor of ${card.label} is another guest (uuid ${uuid})`,
        );
      const guest = new SupervisedQemu(parts, client);
      // It may have switched itself off before anyone listened.
      background(this.options.log, "looking at a new guest", guest.finishShutdown());
      return guest;
    } catch (err) {
      client.close();
      throw err;
    }
  }

  /** A guest whose QEMU hangs is a running guest all the same: it is seen, can be killed, and may wake up. */
  protected override async adoptRunning(parts: SupervisedGuestParts): Promise<SupervisedGuest> {
    try {
      return await super.adoptRunning(parts);
    } catch (err) {
      if (parts.card.monitors !== true || !isRunning(parts.state) || !isAppError(err, "request.timeout"))
        throw err;
      const { label } = parts.card;
      this.options.log.error(
        { resource: label, err: err.message },
        "a guest runs, but its QEMU does not answer",
      );
      const client = QmpClient.late({ ...this.#monitorsOf(parts), connectTimeoutMs: ADOPT_TIMEOUT_MS });
      return new SupervisedQemu(parts, client);
    }
  }

  #monitorsOf({ folder, card: { label } }: SupervisedGuestParts) {
    return {
      commandPath: folder.socket("qmp"),
      eventPath: folder.socket("qmp-event"),
      label,
      clock: this.clock,
    };
  }
}

function asQemu(found: SupervisedGuest): SupervisedQemu {
  if (found instanceof SupervisedQemu) return found;
  throw new AppError("internal.error", `${found.label} was started as QEMU and has no monitor`);
}
