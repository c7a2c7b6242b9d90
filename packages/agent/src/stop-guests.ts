// For `down --guests`, when server and agent have stopped: ends every guest of a data directory and takes away the
// network that was made for them.
import { given } from "@gpve/contracts/given.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { stopGroups, type StartableGuest } from "@gpve/domain/guest/startup-order.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import { exec } from "@gpve/kit/exec.ts";
import { removeMacFilter } from "./infrastructure/net/filter/mac-filter.ts";
import { removeHostWall } from "./infrastructure/net/filter/host-wall.ts";
import { linesTableName, removeLinePins } from "./infrastructure/net/line/line-pins.ts";
import { natTableName } from "./infrastructure/net/nat/nat-table.ts";
import { guestNetwork } from "./infrastructure/net/nat/guest-network.ts";

export interface StoppedGuests {
  /** Switched themselves off when asked. */
  readonly shutDown: number;
  /** Did not, and were stopped. */
  readonly stopped: number;
  /** Run on: their monitors do not answer. */
  readonly unreachable: readonly string[];
}

export async function stopGuests(
  data: DataDir,
  options: { readonly log: Logger; readonly timeoutMs: number; readonly clock?: Clock },
): Promise<StoppedGuests> {
  const { log, timeoutMs, clock = systemClock } = options;
  const guests = new SupervisedQemus({
    dataFolder: data.path,
    instanceId: data.instanceId,
    supervisor: "", // nothing is started
    log,
    clock,
  });
  try {
    const { running, ended, unreachable } = await guests.adopt();
    const isVm = ({ id }: GuestProcess): boolean => !id.includes("-");
    const outcomes: boolean[] = [];
    for (const group of stopGroups(running.filter(isVm).map(startable)))
      outcomes.push(
        ...(await Promise.all(
          group.map(({ vmid, down }) => {
            const patienceMs = down === undefined ? timeoutMs : Math.min(timeoutMs, down * 1000);
            return shutDown(guests.qemu(String(vmid)), patienceMs, clock);
          }),
        )),
      );
    // Helpers (a TPM, a file server) are needed until their guest has gone.
    await Promise.all(
      running.filter((guest) => !isVm(guest) && !guest.hasExited).map((guest) => guest.stop()),
    );
    for (const { id } of [...running, ...ended]) await guests.forget(id);
    if (unreachable.length === 0) {
      guests.sweep();
      if (guests.confinement.level === "full") {
        await guestNetwork(data, { clock }).teardown();
        const table = natTableName(data.instanceId);
        for (const remove of [
          () => removeMacFilter({ exec, table }),
          () => removeHostWall({ exec, table }),
          // Of an agent that was killed while somebody had a line to a guest.
          () => removeLinePins({ exec, table: linesTableName(data.instanceId) }),
        ])
          await remove().catch((err: unknown) => ignore(err, "without nftables there is no filter"));
      }
    }
    return {
      shutDown: outcomes.filter((itself) => itself).length,
      stopped: outcomes.filter((itself) => !itself).length,
      unreachable: unreachable.map(({ label }) => label),
    };
  } finally {
    guests.close();
  }
}

/** Its order as it was when it started: the configuration is the server's, which is down. */
function startable({ id, note }: GuestProcess): StartableGuest {
  const { startup } = (note ?? {}) as { readonly startup?: string };
  return { vmid: Number(id), onboot: false, ...given({ startup }) };
}

/** True when the guest switched itself off. */
async function shutDown(guest: QemuProcess | undefined, timeoutMs: number, clock: Clock): Promise<boolean> {
  if (guest === undefined) return true;
  try {
    await guest.qmp.execute("cont");
    await guest.qmp.execute("system_powerdown");
  } catch (err) {
    ignore(err, "it is stopped below");
  }
  const patience = new AbortController();
  const exit = await Promise.race([
    guest.exited,
    clock.sleep(timeoutMs, patience.signal).then(
      () => undefined,
      () => undefined,
    ),
  ]);
  patience.abort(new Error("no longer needed"));
  if (exit === undefined) await guest.stop();
  return exit?.cause === "shutdown";
}
