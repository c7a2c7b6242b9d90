// How the RAM of a running guest goes to another node: by one connection as it is, or by several (QEMU's multifd) and
// compressed. Agents carry all connections of a move in one process each, so that several of them are no quicker than one
// between nodes that are near each other; where the line is far or narrow they are, and only there they are used. What is
// wanted the source says; what of it is done the target says, by what its QEMU can do.
import { given } from "@gpve/contracts/given.ts";

/** The best first: zstd takes a third of the time of zlib for the same. */
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
  /** Several connections are of use, also where nothing can be compressed. */
  readonly isFar: boolean;
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

/** Nothing is asked of QEMU where nothing is wanted. */
export function isTransferWanted({ isFar = false, compression }: MoveLine): boolean {
  return isFar || compression === "on";
}

/** undefined = by one connection, as it is. */
export function wantedTransfer(line: MoveLine, here: TransferAbilities): WantedTransfer | undefined {
  if (!isTransferWanted(line) || !here.multifd) return undefined;
  const { isFar = false, compression } = line;
  const compressions = compression === "off" ? [] : here.compressions;
  return isFar || compressions.length > 0
    ? { multifd: true, compressions, channels: CHANNELS, isFar }
    : undefined;
}

/** The target's word; undefined = by one connection, as it is. */
export function takenTransfer(
  wanted: WantedTransfer | undefined,
  there: TransferAbilities,
): RamTransfer | undefined {
  if (wanted === undefined || !there.multifd) return undefined;
  const compression = wanted.compressions.find((each) => there.compressions.includes(each));
  if (compression === undefined && !wanted.isFar) return undefined;
  return { channels: wanted.channels, ...given({ compression }) };
}

/** As another node says it, maybe of another version. */
export function decodeWanted(json: unknown): WantedTransfer | undefined {
  const { channels, compressions, isFar } = (json ?? {}) as Record<string, unknown>;
  if (!isChannels(channels) || !Array.isArray(compressions)) return undefined;
  return {
    multifd: true,
    compressions: compressions.filter(isCompression),
    channels,
    isFar: isFar === true,
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
  if (!isTransferWanted(line)) return undefined;
  const { compression } = taken ?? {};
  const lacks =
    line.compression !== "off" && compression === undefined
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
