// UPID: the name of a task, "UPID:<node>:<pid>:<pstart>:<starttime>:<type>:<id>:<user>:".
//
// The pid field is no process id here but a durable task number of the node, so that a thousand tasks alike in
// one second still differ. Characters that would break the format, or that HTTP clients mangle when they put a
// UPID into a path unencoded (":", "/", "%", "\", blanks, non-ASCII), are written as "~" and two hex digits per
// UTF-8 byte.
import { parameterError } from "../request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";

export interface Upid {
  readonly node: string;
  /** The task number: 1 to 0xFFFFFFFF. */
  readonly pid: number;
  /** 8 or 9 hex digits in the text. */
  readonly pstart: number;
  /** Seconds since the epoch. */
  readonly starttime: number;
  readonly type: string;
  readonly id: string;
  /** "joe@pve" or "joe@pve!ci". */
  readonly user: string;
}

const NODE = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?$/;
const SHAPE =
  /^UPID:([a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):([0-9A-Fa-f]{8}):([^:\s/]+):([^:\s/]*):([^:\s/]+):$/;
const SAFE = /^[A-Za-z0-9@!._+=,-]$/;
const MAX_U32 = 0xffff_ffff;
const MAX_PSTART = 0xf_ffff_ffff;

export function formatUpid(upid: Upid): string {
  const check = (ok: boolean, what: string): void => {
    if (!ok) throw new AppError("internal.error", `cannot name a task: ${what}`);
  };
  check(NODE.test(upid.node), `'${upid.node}' is not a node name`);
  check(isUint(upid.pid, MAX_U32), `task number ${upid.pid} is out of range`);
  check(isUint(upid.pstart, MAX_PSTART), `start mark ${upid.pstart} is out of range`);
  check(isUint(upid.starttime, MAX_U32), `start time ${upid.starttime} is out of range`);
  check(upid.type !== "" && upid.user !== "", "type and user must not be empty");
  const fields = [hex8(upid.pid), hex8(upid.pstart), hex8(upid.starttime)];
  const words = [upid.type, upid.id, upid.user].map((word) => escapeWord(word));
  return `UPID:${[upid.node, ...fields, ...words].join(":")}:`;
}

/** undefined = not a UPID. */
export function parseUpid(text: string): Upid | undefined {
  const match = SHAPE.exec(text);
  if (match === null) return undefined;
  const [, node = "", pid = "", pstart = "", starttime = "", type = "", id = "", user = ""] = match;
  const words = [type, id, user].map((word) => unescapeWord(word));
  const [plainType, plainId, plainUser] = words;
  if (plainType === undefined || plainId === undefined || plainUser === undefined) return undefined;
  return {
    node,
    pid: Number.parseInt(pid, 16),
    pstart: Number.parseInt(pstart, 16),
    starttime: Number.parseInt(starttime, 16),
    type: plainType,
    id: plainId,
    user: plainUser,
  };
}

/** Like parseUpid, with PVE's parameter error. */
export function requireUpid(text: string): Upid {
  const upid = parseUpid(text);
  if (upid === undefined) throw upidError("unable to parse worker upid");
  return upid;
}

export function upidError(text: string): AppError {
  return parameterError({ upid: text });
}

function isUint(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}

function hex8(value: number): string {
  return value.toString(16).toUpperCase().padStart(8, "0");
}

function escapeWord(word: string): string {
  let out = "";
  for (const char of word.toWellFormed()) out += SAFE.test(char) ? char : escapeChar(char);
  return out;
}

function escapeChar(char: string): string {
  // encodeURIComponent leaves a few ASCII marks alone; those are escaped by their code.
  const encoded = encodeURIComponent(char);
  if (encoded.startsWith("%")) return encoded.replaceAll("%", "~");
  return `~${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}

function unescapeWord(word: string): string | undefined {
  if (/~(?![0-9A-Fa-f]{2})/.test(word)) return undefined;
  const percent = word.replaceAll("%", "%25").replaceAll("~", "%");
  try {
    return decodeURIComponent(percent);
  } catch {
    return undefined; // The bytes are no UTF-8: not a UPID of ours.
  }
}
