// A running VM on its way to another node, as its node does it.
import { given } from "@gpve/contracts/given.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type {
  ForwardedSocket,
  MoveKeys,
  MoveOffer,
  MovePeer,
  MovePeers,
  OfferedVolume,
} from "@gpve/domain/guest/move-channel.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { memoryMiB } from "@gpve/domain/vm/config/vm-properties.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";
import type { StorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import { localResources } from "@gpve/domain/vm/migrate/movable.ts";
import {
  describeTransfer,
  isTransferWanted,
  wantedTransfer,
  type WantedTransfer,
} from "@gpve/domain/vm/migrate/ram-transfer.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { cancelMigration, isEmulated, type RamStatePorts } from "../snapshot/ram-state.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";
import { DiskMirrors, dropMirrors } from "./disk-mirrors.ts";
import { withVolumes } from "./received-volumes.ts";
import { transferAbilities } from "./qemu-transfer.ts";
import { readyRam } from "./ram-way.ts";
import { type RamLimits, sendRam, type RamWork } from "./send-ram.ts";
import { SentInVain } from "./sent-in-vain.ts";
import { offeredVolumes, sendVolumes } from "./sent-volumes.ts";

export interface SendVmPorts extends RamStatePorts {
  readonly configs: VmConfigs;
  readonly storages: GuestStorages;
  readonly clock: Clock;
  readonly moves: { readonly peers: MovePeers; readonly keys?: MoveKeys };
}

export interface SendVmWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress: (fraction: number, text?: string) => void;
  /** KiB/s */
  readonly bwlimit?: number | undefined;
  readonly storageMap?: StorageMap | undefined;
  readonly withLocalDisks: boolean;
  /** Done before the other end is asked to prepare anything, and while it lets us in: notes are slow. */
  readonly begun?: () => Promise<void>;
  /** Told of the volumes that it has no more use for here, while the guest still runs: notes are slow. */
  readonly willFree?: (volids: readonly string[]) => Promise<void>;
}

/** What is done with more care than at first, where a guest is to be held in time. */
type Care = Pick<RamLimits, "patience" | "fullBytes">;

type StreamWork = Pick<SendVmWork, "signal" | "log" | "progress" | "bwlimit"> &
  Care &
  Pick<RamLimits, "transfer" | "isEncrypted"> & {
    /** What carries its RAM. */
    readonly ram: ForwardedSocket;
  };

const MOST_TRIES = 3;
const DEFAULT_DOWNTIME_S = 0.1;
const MIB = 1024 ** 2;

export interface SentVm {
  /** What it has there. */
  readonly conf: string;
  /** Since when it stands still, by the host's clock. */
  readonly stoppedAt?: number | undefined;
  /** Hangs up. The other end takes that for the end of the move, and asks whose the guest is. */
  close(): Promise<void>;
}

/** Resolves when the guest is whole there and, if it runs, stands still here. */
export async function sendVm(
  host: SendVmPorts,
  move: GuestMove,
  process: QemuProcess | undefined,
  work: SendVmWork,
): Promise<SentVm> {
  const { vmid } = move;
  const config = host.configs.get(vmid);
  if (process !== undefined) requireUnbound(vmid, config.values);
  const volumes = await offeredVolumes(host, vmid, config, process !== undefined, work);
  const peer = await letIn(host, move, work);
  const signal = AbortSignal.any([work.signal, peer.lost]);
  try {
    const before = writeVmConfig(config);
    const { volumes: made } = await peer.prepare(
      { ...(await offerOf(host, vmid, before, process)), volumes },
      signal,
    );
    const names = { ...made, ...(await sendVolumes(host, peer, volumes, { ...work, signal })) };
    const conf = withVolumes(before, names);
    const freed = Object.keys(names);
    await work.willFree?.(freed);
    if (process === undefined) return { conf, close: async () => peer.close() };
    const live = volumes.filter(({ isLive }) => isLive);
    const wanted = await transferOf(move, process, config.values);
    const streamed = await persistently(host, process, { ...work, signal }, async (care) => {
      const { values } = config;
      const way = { keys: host.moves.keys, peer, wanted, values, signal, log: work.log };
      const { ram, transfer, isEncrypted } = await readyRam(move, process, way);
      work.log(`node '${move.to.node}' is ready for it`);
      const how = describeTransfer(move, transfer, move.to.node);
      if (how !== undefined) work.log(how);
      const streaming = { ...work, signal, ...care, transfer, isEncrypted, ram };
      return streamVm(host, peer, process, values, live, streaming);
    });
    // The guest stands still now: whatever can wait is done later.
    return { conf, ...streamed };
  } catch (err) {
    peer.close();
    throw peer.lost.aborted && !work.signal.aborted ? (peer.lost.reason as Error) : err;
  }
}

async function letIn(
  { moves: { peers } }: SendVmPorts,
  move: GuestMove,
  { signal, begun }: SendVmWork,
): Promise<MovePeer> {
  const [met, noted] = await Promise.allSettled([peers.connect(move, signal), begun?.()]);
  if (met.status === "rejected") throw met.reason;
  if (noted.status === "fulfilled") return met.value;
  met.value.close();
  throw noted.reason;
}

async function transferOf(
  move: GuestMove,
  process: QemuProcess,
  values: VmValues,
): Promise<WantedTransfer | undefined> {
  const guest = { isEmulated: isEmulated(process), memoryMiB: memoryMiB(values["memory"]) };
  if (!isTransferWanted(move, guest)) return undefined;
  return wantedTransfer(move, guest, await transferAbilities(process.qmp));
}

/** Where what was sent cannot be trusted it is sent once more, and more slowly; meanwhile the guest goes on here. */
export async function persistently<T>(
  host: RamStatePorts,
  process: QemuProcess,
  { log, signal }: Pick<SendVmWork, "log" | "signal">,
  attempt: (care: Care) => Promise<T>,
): Promise<T> {
  let fullBytes: number | undefined;
  for (let tries = 1; ; tries++) {
    try {
      return await attempt({ patience: tries, fullBytes });
    } catch (err) {
      if (!(err instanceof SentInVain) || tries >= MOST_TRIES || signal.aborted) throw err;
      log(`${err.message}. It is sent once more`);
      fullBytes = err.fullBytes;
      await keepHere(host, process, false);
    }
  }
}

async function offerOf(
  host: SendVmPorts,
  vmid: number,
  conf: string,
  process: QemuProcess | undefined,
): Promise<MoveOffer> {
  const microvm = host.configs.microvm(vmid);
  const plain = { type: VM_TYPE, conf, isRunning: process !== undefined, volumes: [], ...given({ microvm }) };
  if (process === undefined) return plain;
  const { machine, cpu } = (process.note ?? {}) as { readonly machine?: string; readonly cpu?: string };
  const { status } = await process.qmp.execute("query-status");
  return { ...plain, isPaused: status !== "running", ...given({ machine, cpu }) };
}

function requireUnbound(vmid: number, values: VmValues): void {
  const bound = localResources(values);
  if (bound.length > 0)
    throw conflict(
      `VM ${vmid} runs with devices of this node (${bound.join(", ")}): stop it first, or take them away`,
    );
}

/** Disks and RAM. */
export async function streamVm(
  host: Pick<SendVmPorts, "clock" | keyof RamStatePorts>,
  peer: Pick<MovePeer, "forward" | "close" | "announce">,
  process: QemuProcess,
  values: VmValues,
  live: readonly Pick<OfferedVolume, "key" | "volid">[],
  work: StreamWork,
): Promise<Pick<SentVm, "close" | "stoppedAt">> {
  const { ram } = work;
  const nbd = live.length === 0 ? undefined : await peer.forward(process, "nbd");
  const hangUp = async (): Promise<void> => {
    await ram.close();
    await nbd?.close();
  };
  const close = async (): Promise<void> => {
    peer.close();
    await hangUp();
  };
  try {
    const mirrors = nbd === undefined ? undefined : new DiskMirrors(process, nbd.path, live, work);
    await mirrors?.begin();
    try {
      const atStandstill = mirrors && (() => mirrors.finish());
      const stoppedAt = await stream(host, ram.path, process, values, {
        ...work,
        ...given({ atStandstill }),
        atRest: () => {
          ram.hurry?.();
          peer.announce?.();
        },
        line: ram,
      });
      return { close, stoppedAt };
    } catch (err) {
      await cancelMigration(host, process);
      await mirrors?.drop();
      throw err;
    }
  } catch (err) {
    await hangUp();
    throw err;
  }
}

async function stream(
  host: Pick<SendVmPorts, "clock">,
  socket: string,
  process: QemuProcess,
  values: VmValues,
  work: StreamWork & Pick<RamWork, "atStandstill" | "atRest" | "line">,
): Promise<number | undefined> {
  const downtimeMs = Number(values["migrate_downtime"] ?? DEFAULT_DOWNTIME_S) * 1000;
  const speed = Number(values["migrate_speed"] ?? 0) * MIB;
  const limit = work.bwlimit === undefined || work.bwlimit === 0 ? speed : work.bwlimit * 1024;
  const { patience, fullBytes, transfer, isEncrypted } = work;
  const limits = {
    downtimeMs,
    ...given({ patience, fullBytes, transfer, isEncrypted }),
    ...(limit === 0 ? {} : { bytesPerSecond: limit }),
  };
  const info = await sendRam(process, socket, limits, { ...work, clock: host.clock });
  work.log(
    `sent ${((info.ram?.transferred ?? 0) / MIB).toFixed(1)} MiB in ${((info["total-time"] ?? 0) / 1000).toFixed(1)} s; the guest stood still for ${info.downtime ?? 0} ms`,
  );
  return info.stoppedAt;
}

/** The guest goes on here, whatever was on its way. */
export async function keepHere(host: RamStatePorts, process: QemuProcess, isPaused: boolean): Promise<void> {
  await cancelMigration(host, process);
  await dropMirrors(process);
  const { qmp } = process;
  const { status } = await qmp.execute("query-status");
  if (isPaused || status === "running" || status === "shutdown") return;
  await qmp.execute("cont").catch((err: unknown) => {
    if (status === "paused") throw err;
    ignore(err, "told by who looks at it");
  });
}
