// How the RAM of a running guest goes to another node: by one connection, or by several (QEMU's multifd), as it is or
// compressed. Several are worth their making where there is much to send or the line is far; compressing is, where the line
// is narrower than what a processor compresses. What is wanted the source says; what of it is done the target says, by
// what its QEMU can do.
import { given } from "@gpve/contracts/given.ts";

/** The quicker first. */
export const ramCompressions = ["zstd", "zlib"] as const;

export type RamCompression = (typeof ramCompressions)[number];

export interface RamTransfer {
  /** Beside the one that leads them. */
  readonly channels: number;
  readonly compression?: RamCompression;
}

/** What a QEMU can do. */
export interface TransferAbilities {
  readonly multifd: boolean;
  readonly compressions: readonly RamCompression[];
}

export interface WantedTransfer extends TransferAbilities {
  readonly channels: number;
  /** Several connections are of use, also where nothing is compressed. */
  readonly plain: boolean;
}

export interface SentGuest {
  /** Such a guest is sent slowly, so that it can be held when QEMU reads its log of changed pages. */
  readonly isEmulated: boolean;
  readonly memoryMiB: number;
}

/** What a server has noted of the line. */
export interface MoveLine {
  readonly isFar?: boolean | undefined;
  /** As whoever asked for the move said; undefined = where the line is far. */
  readonly compression?: "on" | "off" | undefined;
}

/** Each has a thread on either side, which compresses; more than a node has to spare for a guest that leaves it are no use. */
const CHANNELS = 4;
const MOST_CHANNELS = 16;
/** Less is sent before several connections have paid. */
const MUCH_MIB = 1024;

/** Nothing is asked of QEMU where nothing is wanted. */
export function isTransferWanted(line: MoveLine, guest: SentGuest): boolean {
  return isCompressionWanted(line) || isPlainOfUse(line, guest);
}

/** undefined = by one connection, as it is. */
export function wantedTransfer(
  line: MoveLine,
  guest: SentGuest,
  here: TransferAbilities,
): WantedTransfer | undefined {
  if (!here.multifd) return undefined;
  const compressions = isCompressionWanted(line) ? here.compressions : [];
  const plain = isPlainOfUse(line, guest);
  return plain || compressions.length > 0
    ? { multifd: true, compressions, channels: CHANNELS, plain }
    : undefined;
}

function isCompressionWanted({ isFar = false, compression }: MoveLine): boolean {
  return compression === "on" || (isFar && compression !== "off");
}

function isPlainOfUse({ isFar = false }: MoveLine, { isEmulated, memoryMiB }: SentGuest): boolean {
  return isFar || (!isEmulated && memoryMiB >= MUCH_MIB);
}

/** The target's word; undefined = by one connection, as it is. */
export function takenTransfer(
  wanted: WantedTransfer | undefined,
  there: TransferAbilities,
): RamTransfer | undefined {
  if (wanted === undefined || !there.multifd) return undefined;
  const compression = wanted.compressions.find((each) => there.compressions.includes(each));
  if (compression === undefined && !wanted.plain) return undefined;
  return { channels: wanted.channels, ...given({ compression }) };
}

/** As another node says it, maybe of another version. */
export function decodeWanted(json: unknown): WantedTransfer | undefined {
  const { channels, compressions, plain } = (json ?? {}) as Record<string, unknown>;
  if (!isChannels(channels) || !Array.isArray(compressions)) return undefined;
  return {
    multifd: true,
    compressions: compressions.filter(isCompression),
    channels,
    plain: plain === true,
  };
}

/** An answer that is not understood is refused: both ends must mean the same. */
export function decodeTransfer(json: unknown): RamTransfer | undefined | "unknown" {
  if (typeof json !== "object" || json === null) return undefined;
  const { channels, compression } = json as Record<string, unknown>;
  if (channels === undefined) return undefined;
  if (!isChannels(channels)) return "unknown";
  if (compression === undefined) return { channels };
  return isCompression(compression) ? { channels, compression } : "unknown";
}

/** For the log of the move. */
export function describeTransfer(
  line: MoveLine,
  taken: RamTransfer | undefined,
  to: string,
): string | undefined {
  const isCompressed = isCompressionWanted(line);
  if (taken === undefined && !isCompressed) return undefined;
  const { compression } = taken ?? {};
  const lacks =
    isCompressed && compression === undefined
      ? `: QEMU here and on node '${to}' have no way in common to compress it`
      : "";
  if (taken === undefined) return `RAM goes by one connection, as it is${lacks}`;
  const how = compression === undefined ? "as it is" : `compressed by ${compression}`;
  return `RAM goes by ${taken.channels} connections, ${how}${lacks}`;
}

function isChannels(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MOST_CHANNELS;
}

function isCompression(value: unknown): value is RamCompression {
  return (ramCompressions as readonly unknown[]).includes(value);
}
