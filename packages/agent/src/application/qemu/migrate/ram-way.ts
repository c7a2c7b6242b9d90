// How the RAM of a running guest gets to the other node: by a line of its own, on which the QEMUs encrypt it, or by way of the
// agents, which takes two to three times as long. What stands against the first is told in the log, and the second is taken.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ForwardedSocket, MoveKeys, MovePeer } from "@gpve/domain/guest/move-channel.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { isDirectWanted, type DirectPlace, type RamWay } from "@gpve/domain/vm/migrate/direct-line.ts";
import type { RamTransfer, WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import { encryptRam, forgetKey } from "./encrypted-ram.ts";

export interface ReadyRam {
  readonly ram: ForwardedSocket;
  readonly isEncrypted: boolean;
  readonly transfer?: RamTransfer | undefined;
}

export interface RamWayWork {
  readonly keys: MoveKeys | undefined;
  readonly peer: Pick<MovePeer, "start" | "forward" | "forwardDirect">;
  readonly wanted: WantedTransfer | undefined;
  readonly values: VmValues;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** Resolves when its QEMU may begin to send. */
export async function readyRam(move: GuestMove, process: QemuProcess, work: RamWayWork): Promise<ReadyRam> {
  const { keys, peer, wanted, values, signal, log } = work;
  if (keys !== undefined && peer.forwardDirect !== undefined && isDirectWanted(move, values)) {
    const found = await direct(move, process, { ...work, keys });
    if ("ram" in found) {
      log("RAM goes by a line of its own, encrypted by QEMU");
      return found;
    }
    log(`RAM goes by way of the agents: ${found.refused}`);
    if (found.way !== undefined) return byAgents(process, work, found.way);
  }
  return byAgents(process, work, await peer.start(signal, wanted));
}

async function byAgents(process: QemuProcess, { peer }: RamWayWork, { transfer }: RamWay): Promise<ReadyRam> {
  return { ram: await peer.forward(process, "ram"), isEncrypted: false, transfer };
}

/** `way`: the other end waits for it in this way already. */
async function direct(
  { to }: GuestMove,
  process: QemuProcess,
  { keys, peer, wanted, signal }: RamWayWork & { readonly keys: MoveKeys },
): Promise<ReadyRam | { readonly refused: string; readonly way?: RamWay }> {
  const key = keys.newKey();
  // Meanwhile a QEMU is started there.
  const here = encryptRam(keys, process, key, "client").then(
    () => undefined,
    (err: unknown) => messageOf(err),
  );
  let way: RamWay;
  let failure: string | undefined;
  let line: Promise<ForwardedSocket> | undefined;
  let isOpen = false;
  const dial = (place: DirectPlace): void => {
    line ??= peer.forwardDirect?.(process, place);
    line?.catch((err: unknown) => ignore(err, "told when it is to be used"));
  };
  const hangUp = async (): Promise<void> => {
    await line?.then(
      (open) => open.close(),
      (err: unknown) => ignore(err, "there is none"),
    );
  };
  try {
    way = await peer.start(signal, wanted, key, dial);
    isOpen = way.direct !== undefined;
  } finally {
    failure = await here;
    if (!isOpen) await hangUp();
  }
  if (way.direct === undefined) {
    await forgetKey(keys, process);
    return { refused: `node '${to.node}': ${way.refused ?? ""}`, way };
  }
  try {
    if (failure !== undefined) {
      await hangUp();
      return { refused: failure };
    }
    dial(way.direct);
    const ram = await line;
    if (ram !== undefined) return { ram, isEncrypted: true };
    failure = "nothing carries it here";
  } catch (err) {
    signal.throwIfAborted();
    failure = messageOf(err);
  }
  await forgetKey(keys, process).catch((err: unknown) => ignore(err, "it leads nowhere"));
  return { refused: `node '${to.node}' at ${to.address}, port ${way.direct.port}: ${failure}` };
}
