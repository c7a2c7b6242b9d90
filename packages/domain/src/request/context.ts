// What every request carries from the edge to the last executed command.
import { given } from "@gpve/contracts/given.ts";
import type { SystemWork } from "../access/system-work.ts";

export interface Actor {
  /** "joe@pve"; for tokens the owner. */
  readonly userid: string;
  /** The token's own name ("ci") when a token was used. */
  readonly tokenid?: string;
  /** "joe@pve" or "joe@pve!ci": what ACLs, tasks and audit name. */
  readonly authid: string;
}

/** Of "joe@pve" or "joe@pve!ci". */
export function actorOf(authid: string): Actor {
  const at = authid.indexOf("!");
  return at === -1
    ? { userid: authid, authid }
    : { userid: authid.slice(0, at), tokenid: authid.slice(at + 1), authid };
}

/** Only the literal root@pam by ticket passes every check; a token of root@pam does not. */
export const ROOT_USER = "root@pam";

export function isRoot(actor: Actor): boolean {
  return actor.authid === ROOT_USER;
}

export interface RequestLogger {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void;
  info(fields: Readonly<Record<string, unknown>>, message: string): void;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** Answers permission questions about the actor of one request. Deny by default. */
export interface AccessView {
  /** Effective privileges on an ACL path -> whether each propagates. */
  privileges(path: string): ReadonlyMap<string, boolean>;
  has(path: string, privileges: readonly string[], mode?: "all" | "any"): boolean;
  /** Throws AppError access.denied with PVE's text `Permission check failed (<path>, <priv>)`. */
  require(path: string, privileges: readonly string[], mode?: "all" | "any"): void;
}

export interface RequestContext {
  readonly requestId: string;
  /** undefined = anonymous (only `user: world` methods see it). */
  readonly actor: Actor | undefined;
  readonly access: AccessView;
  readonly signal: AbortSignal;
  readonly log: RequestLogger;
  readonly clientAddress: string;
  /** What the client calls us: host and port of its request. */
  readonly host?: string;
  /** Set where the system works by itself, for nobody's request. */
  readonly work?: SystemWork;
  /** W3C traceparent of the current span, for calls to other processes. */
  readonly traceparent?: string;
}

/** Who looks, and what they may see. */
export type Viewer = Pick<RequestContext, "actor" | "access">;

/** Whoever asks for an operation, as it notes it; "" = the system. */
export function askedBy({ actor, traceparent }: Pick<RequestContext, "actor" | "traceparent">): {
  readonly actor: string;
  readonly traceparent?: string;
} {
  return { actor: actor?.authid ?? "", ...given({ traceparent }) };
}
