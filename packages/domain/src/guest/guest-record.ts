// The stored form of a guest: PVE's configuration text is the canonical model; what lists show is read from it.
import { given } from "@gpve/contracts/given.ts";
import type { GuestKeys, GuestSummary } from "./guest-kind.ts";
import { guestKinds, type GuestType } from "./guest-kinds.ts";
import { isGuestType } from "./guest-words.ts";
import { unknownShape } from "../record/collection.ts";

export interface GuestRecord {
  readonly vmid: number;
  readonly type: GuestType;
  /** The node that owns it. */
  readonly node: string;
  /** Rises whenever another node becomes its owner: who writes a record must know the number it has. */
  readonly fence: number;
  /** The request that had it made: tells it from another guest that has its id later. */
  readonly madeBy?: string;
  /** The whole configuration file, sections included. */
  readonly conf: string;
  /** The pool it was created for and is not in yet; servers put it there and take this away. */
  readonly wantedPool?: string;
  /** QEMU's microvm machine, which PVE's configuration has no word for. */
  readonly microvm?: Microvm;
  /** Bytes of volumes whose size the configuration does not say, as of unused disks. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** How many backups of it its node sees. */
  readonly backups?: number;
  /** When its first pending change came, or the last one went; milliseconds since the epoch. */
  readonly pendingAt?: number;
  readonly summary: GuestSummary;
}

/** Volumes of what it boots. */
export interface Microvm {
  readonly kernel: string;
  readonly initrd?: string;
  readonly cmdline?: string;
}

const DEFAULT_MEMORY_MIB = 512;
/** No date is later. */
const LAST_TIME = 8.64e15;

export function guestRecord(input: {
  vmid: number;
  type: GuestType;
  node: string;
  conf: string;
  fence?: number;
  madeBy?: string;
  wantedPool?: string;
  microvm?: Microvm;
  sizes?: Readonly<Record<string, number>>;
  backups?: number;
  pendingAt?: number;
}): GuestRecord {
  const summary = summarise(input.vmid, input.type, currentSection(input.conf));
  return { ...input, fence: input.fence ?? 0, summary };
}

/** The record as another node has it. Whatever its former owner still writes is refused from then on. */
export function withOwner(guest: GuestRecord, node: string): GuestRecord {
  return { ...guest, node, fence: guest.fence + 1 };
}

export function decodeGuest(json: unknown): GuestRecord {
  const { vmid, type, node, conf, fence, madeBy, wantedPool, microvm, sizes, backups, pendingAt } =
    json as Partial<GuestRecord>;
  if (
    typeof vmid !== "number" ||
    !isGuestType(type) ||
    typeof node !== "string" ||
    typeof conf !== "string"
  ) {
    throw unknownShape("a guest record in the store");
  }
  return guestRecord({
    vmid,
    type,
    node,
    conf,
    ...(typeof fence === "number" ? { fence } : {}),
    ...(typeof madeBy === "string" ? { madeBy } : {}),
    ...(typeof wantedPool === "string" ? { wantedPool } : {}),
    ...(typeof microvm === "object" ? { microvm } : {}),
    ...(typeof sizes === "object" ? { sizes: readSizes(sizes) } : {}),
    ...(Number.isSafeInteger(backups) && Number(backups) > 0 ? { backups: Number(backups) } : {}),
    ...(isTime(pendingAt) ? { pendingAt } : {}),
  });
}

/** An agent wrote it: whatever it is, it can be shown. */
function isTime(at: unknown): at is number {
  return typeof at === "number" && at > 0 && at <= LAST_TIME;
}

/** Nothing that an agent writes makes use of storage smaller than nothing. */
function readSizes(sizes: object): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(sizes).filter(([, bytes]) => Number.isSafeInteger(bytes) && bytes > 0),
  );
}

export function encodeGuest(guest: GuestRecord): unknown {
  const { summary: _derived, ...stored } = guest;
  return stored;
}

/** What other nodes than its own are told of a guest. */
export function briefGuest({ vmid, type, node, fence, summary }: GuestRecord): GuestRecord {
  const conf = summary.tags === undefined ? "" : `tags: ${summary.tags}\n`;
  return guestRecord({ vmid, type, node, fence, conf });
}

export interface GoneGuest {
  readonly vmid: number;
  /** Backup jobs are to forget it too. */
  readonly purge?: boolean;
  /** What of it is still there: how many archives, and whose node saw them. */
  readonly left?: { readonly type: GuestType; readonly node: string; readonly backups: number };
}

/**
 * Guests that were deleted, until a server has taken their pool memberships and permissions away: the next guest with
 * the id must not inherit them, whatever crashes when.
 */
export const goneGuestCollection = {
  prefix: "/gpve/gone-guests/",
  decode: decodeGoneGuest,
};

function decodeGoneGuest(json: unknown): GoneGuest {
  const { vmid, purge, left } = (json ?? {}) as Partial<GoneGuest>;
  if (typeof vmid !== "number") throw new Error("a note of a deleted guest has no vmid");
  return { vmid, ...(purge === true ? { purge } : {}), ...given({ left: decodeLeft(left) }) };
}

function decodeLeft(json: unknown): GoneGuest["left"] {
  const { type, node, backups } = (json ?? {}) as Partial<NonNullable<GoneGuest["left"]>>;
  if (!isGuestType(type) || typeof node !== "string") return undefined;
  return Number.isSafeInteger(backups) && Number(backups) > 0
    ? { type, node, backups: Number(backups) }
    : undefined;
}

export const guestCollection = {
  prefix: "/gpve/guests/",
  decode: decodeGuest,
  encode: encodeGuest,
};

/** `key: value` lines of the current section, without the snapshot and pending ones. */
export function currentSection(conf: string): GuestKeys {
  const keys = new Map<string, string>();
  for (const line of conf.split("\n")) {
    if (line.startsWith("[")) break;
    const colon = line.indexOf(":");
    if (colon <= 0 || line.startsWith("#")) continue;
    keys.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return keys;
}

/** What lists show, from the keys of the current section. */
export function summarise(vmid: number, type: GuestType, keys: GuestKeys): GuestSummary {
  const kind = guestKinds[type];
  const tags = keys.get("tags");
  const lock = keys.get("lock");
  return {
    name: keys.get(kind.nameKey) ?? kind.unnamed(vmid),
    cpus: kind.cpus(keys),
    maxmem: memoryMiB(keys.get("memory")) * 1024 * 1024,
    maxdisk: sizeOption(keys.get(kind.mainDisk(keys) ?? "") ?? ""),
    template: keys.get("template") === "1",
    ...(tags === undefined || tags === "" ? {} : { tags }),
    ...given({ lock }),
    ...kind.more(keys),
  };
}

function memoryMiB(value: string | undefined): number {
  const first = /(?:^|current=)(\d+)/.exec(value ?? "")?.[1];
  return first === undefined ? DEFAULT_MEMORY_MIB : Number(first);
}

const units: Readonly<Record<string, number>> = { "": 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 };

function sizeOption(drive: string): number {
  const match = /(?:^|,)size=(\d+(?:\.\d+)?)([KMGT]?)/.exec(drive);
  return match === null ? 0 : Math.round(Number(match[1]) * (units[match[2] ?? ""] ?? 1));
}
