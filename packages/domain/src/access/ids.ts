// The names PVE's access model knows, and the one place that takes them apart.
import { refused } from "../request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import { splitList } from "../schema/list.ts";

const USER = String.raw`[^\s:/]+`;
const NAME = String.raw`[A-Za-z][A-Za-z0-9.\-_]+`;
const USERID = new RegExp(`^(${USER})@(${NAME})$`, "u");
const TOKENID = new RegExp(`^((${USER})@(${NAME}))!(${NAME})$`, "u");
const POOL_NAME = /^[A-Za-z0-9.\-_]+(?:\/[A-Za-z0-9.\-_]+){0,2}$/;

const MIN_USERID = 3;
const MAX_USERID = 64;

export interface UserName {
  readonly userid: string;
  /** The part before the last `@`. */
  readonly name: string;
  readonly realm: string;
}

export interface TokenName {
  /** "joe@pve!ci". */
  readonly authid: string;
  readonly userid: string;
  readonly tokenid: string;
}

export function parseUserid(text: string): UserName | undefined {
  const length = Array.from(text).length;
  if (length < MIN_USERID || length > MAX_USERID) return undefined;
  const match = USERID.exec(text);
  if (match === null) return undefined;
  return { userid: text, name: match[1] ?? "", realm: match[2] ?? "" };
}

/** Throws with PVE's texts when the name cannot be a user's. */
export function requireUserid(value: unknown): UserName {
  const text = typeof value === "string" ? value : "";
  const parsed = parseUserid(text);
  if (parsed !== undefined) return parsed;
  const length = Array.from(text).length;
  if (length < MIN_USERID) throw plainFailure(`user name '${text}' is too short`);
  if (length > MAX_USERID) throw plainFailure(`user name '${text}' is too long (${length} > ${MAX_USERID})`);
  throw plainFailure(`value '${text}' does not look like a valid user name`);
}

export function parseTokenid(text: string): TokenName | undefined {
  const match = TOKENID.exec(text);
  if (match === null) return undefined;
  return { authid: text, userid: match[1] ?? "", tokenid: match[4] ?? "" };
}

export function joinTokenid(userid: string, tokenid: string): string {
  return `${userid}!${tokenid}`;
}

export function isPoolName(text: string): boolean {
  return POOL_NAME.test(text);
}

/** Names in a `-list` value that may be absent; empty ones are none. */
export function listedNames(text: string | undefined): string[] {
  return text === undefined ? [] : splitList(text).filter((part) => part !== "");
}

/** A failure PVE answers with a bare 500. */
function plainFailure(message: string): AppError {
  return refused(message);
}
