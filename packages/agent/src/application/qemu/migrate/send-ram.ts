// The RAM of a running guest on its way to another node. How long the guest may stand still is a promise: it is slowed
// down step by step until what is left fits, and where that does not help it runs on where it is.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RamTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { isEmulated } from "../snapshot/ram-state.ts";
import { Convergence, throttleParameters } from "./convergence.ts";
import { encryptedParameters } from "./encrypted-ram.ts";
import { type LastOfLine, OnePass } from "./one-pass.ts";
import { setTransfer } from "./qemu-transfer.ts";
import { StandstillAtSyncs } from "./standstill-at-syncs.ts";

export interface RamLimits {
  /** undefined = by one connection, as it is. */
  readonly transfer?: RamTransfer | undefined;
  /** QEMU encrypts it itself. */
  readonly isEncrypted?: boolean | undefined;
  /** How long the guest may stand still. */
  readonly downtimeMs: number;
  readonly bytesPerSecond?: number | undefined;
  /** The how manyth try it is: an emulated guest is sent by one pass at first, then held in time, and the slower for it. */
  readonly patience?: number;
  /** How much of its memory was not empty when it was sent before. */
  readonly fullBytes?: number | undefined;
}

export interface RamWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress: (fraction: number, text?: string) => void;
  readonly clock: Clock;
  /** The guest stands still and its disks are quiet: the last moment to do something with them. */
  readonly atStandstill?: () => Promise<void>;
  /** The guest stands still, most likely for good: what is sent to it should go where it will be. Told more than once. */
  readonly atRest?: () => void;
  /** What carries it. undefined = nobody hangs up on a guest that has too much left. */
  readonly line?: LastOfLine;
}

/** How a guest whose log of changed pages must not be read while it runs is kept from that. */
interface Standstill {
  readonly downtimeLimit: number;
  readonly maxBandwidth: number | undefined;
  /** QEMU is to wait when it has stopped the guest. */
  readonly pauses?: boolean;
  readonly lookEveryMs?: number;
  hold?(): Promise<void>;
  look(info: MigrationInfo, now: number): Promise<void>;
  failure?(): Error | undefined;
}

export interface SentRam extends MigrationInfo {
  /** When the guest stood still for the last time, by the host's clock; undefined = it did not run. */
  readonly stoppedAt: number | undefined;
}

const MAX_BANDWIDTH = 2 ** 40;
/** Of the promise, what the change of owner may take. */
const HANDOVER_SHARE = 0.5;
const TELL_EVERY_MS = 1_000;
const LOOK_EVERY_MS = 10;
/** However slow a line is, something goes over it. */
const STALLED_MS = 60_000;

export async function sendRam(
  process: QemuProcess,
  socket: string,
  limits: RamLimits,
  work: RamWork,
): Promise<SentRam> {
  const { qmp } = process;
  const { signal, atStandstill } = work;
  const { bytesPerSecond } = limits;
  const lastMs = Math.max(1, Math.round(limits.downtimeMs * (1 - HANDOVER_SHARE)));
  const still = isEmulated(process) ? await standstillOf(process, limits, lastMs, work) : undefined;
  const on = (capability: string, state = true) => ({ capability, state });
  // All in one go: QEMU takes them in turn.
  await Promise.all([
    qmp.execute("migrate-set-capabilities", {
      capabilities: [
        on("events"),
        // The other end says when it has everything: only then is it complete.
        on("return-path"),
        on("auto-converge"),
        on("pause-before-switchover", atStandstill !== undefined || still?.pauses === true),
      ],
    }),
    setTransfer(qmp, limits.transfer),
    qmp.execute("migrate-set-parameters", {
      "max-bandwidth": still?.maxBandwidth ?? bytesPerSecond ?? MAX_BANDWIDTH,
      "downtime-limit": still?.downtimeLimit ?? lastMs,
      ...throttleParameters,
      ...encryptedParameters(limits.isEncrypted === true),
    }),
  ]);
  await still?.hold?.();
  await qmp.execute("migrate", { uri: `unix:${socket}` }, { signal });
  return untilSent(process, limits, work, still);
}

async function standstillOf(
  process: QemuProcess,
  { patience = 1, fullBytes, bytesPerSecond, transfer }: RamLimits,
  lastMs: number,
  { atRest, line }: RamWork,
): Promise<Standstill> {
  // One of several connections that is cut was seen to leave QEMU 7.2 waiting for the others, the guest with it.
  if (patience === 1 && transfer === undefined) return new OnePass(process, { lastMs, atRest, line });
  return StandstillAtSyncs.begin(process, { lastMs, bytesPerSecond, patience, fullBytes, atRest });
}

async function untilSent(
  process: QemuProcess,
  limits: RamLimits,
  work: RamWork,
  still: Standstill | undefined,
): Promise<SentRam> {
  const { qmp } = process;
  const { clock, signal } = work;
  const begun = clock.monotonic();
  let told = begun;
  let stood = false;
  const pace = { seen: "", at: begun };
  const convergence = new Convergence();
  const stir = eventsOf(process, still === undefined ? work.atRest : undefined);
  try {
    for (;;) {
      const info = await qmp.execute("query-migrate", undefined, { signal });
      await still?.look(info, clock.monotonic());
      if (info.status === "completed") return { ...info, stoppedAt: stir.stoppedAt() };
      if (info.status === "failed" || info.status === "cancelled") throw still?.failure?.() ?? failed(info);
      if (info.status === "pre-switchover" && !stood) {
        stood = true;
        await work.atStandstill?.();
        await qmp.execute("migrate-continue", { state: "pre-switchover" });
        continue;
      }
      if (convergence.isHopeless(info)) throw tooBusy(limits, info);
      const seen = `${info.status} ${info.ram?.transferred}`;
      if (seen !== pace.seen) Object.assign(pace, { seen, at: clock.monotonic() });
      if (clock.monotonic() - pace.at > STALLED_MS) throw stalled();
      if (clock.monotonic() - told >= TELL_EVERY_MS) {
        told = clock.monotonic();
        tell(info, (told - begun) / 1000, work);
      }
      await stir.next(clock, still?.lookEveryMs ?? LOOK_EVERY_MS, signal);
    }
  } finally {
    stir.close();
  }
}

/** Wakes at QEMU's events, and often enough without them. */
function eventsOf({ qmp }: QemuProcess, atStop?: () => void) {
  let wake = (): void => undefined;
  let isStirred = false;
  let stoppedAt: number | undefined;
  const close = qmp.events.listen({
    onEvent: ({ name, at }) => {
      if (name === "STOP") {
        stoppedAt = at;
        atStop?.();
      }
      // The end of a pass is told too: whoever holds the guest for it waits for nothing else.
      if (name !== "MIGRATION" && name !== "MIGRATION_PASS" && name !== "STOP") return;
      isStirred = true;
      wake();
    },
  });
  return {
    close,
    stoppedAt: () => stoppedAt,
    next: async (clock: Clock, atMostMs: number, signal: AbortSignal): Promise<void> => {
      if (!isStirred) {
        const stirred = new Promise<void>((resolve) => (wake = resolve));
        await Promise.race([stirred, clock.sleep(atMostMs, signal)]);
      }
      isStirred = false;
    },
  };
}

function tell(info: MigrationInfo, seconds: number, { log, progress }: RamWork): void {
  const { ram } = info;
  if (ram === undefined) return;
  const mib = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
  const sent = ram.total === 0 ? 1 : Math.max(0, 1 - ram.remaining / ram.total);
  const throttle = Number(info["cpu-throttle-percentage"] ?? 0);
  const line = [
    `${seconds.toFixed(0)} s: sent ${mib(ram.transferred)}, ${mib(ram.remaining)} of ${mib(ram.total)} left`,
    `${(ram.mbps / 8).toFixed(1)} MB/s`,
    ...(throttle === 0 ? [] : [`guest slowed down by ${throttle} %`]),
  ].join(", ");
  log(line);
  progress(sent, line);
}

function failed(info: MigrationInfo): AppError {
  const why = info["error-desc"];
  const message = `sending the RAM failed${why === undefined ? "" : `: ${why}`}`;
  return new AppError("qmp.failed", message, { pveStatus: 500 });
}

function stalled(): AppError {
  const message = `sending the RAM stands still: nothing went to the other node for ${STALLED_MS / 1000} s. The guest runs on here. Look at the line between the nodes and at the other node's log, and try again`;
  return new AppError("operation.failed", message, { pveStatus: 500 });
}

function tooBusy({ downtimeMs, bytesPerSecond }: RamLimits, info: MigrationInfo): AppError {
  const expected = info["expected-downtime"];
  const limit = bytesPerSecond === undefined ? "" : `, raise the limit of ${bytesPerSecond / 1024} KiB/s`;
  return new AppError(
    "operation.failed",
    `the guest changes its memory faster than it can be sent: it would stand still for ${expected ?? "more than"} ms, of ${downtimeMs} ms allowed. It runs on here. Try again when it is less busy${limit}, raise migrate_downtime, or stop it first`,
    { pveStatus: 500, data: { ...given({ expected }) } },
  );
}
