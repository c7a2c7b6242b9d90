// Who did what, when and from where. Entries are only ever added; each carries the hash of the one before it.

/** Field names are part of the format: other programs read the files. */
export interface AuditEntry {
  /** ISO 8601. */
  readonly timestamp: string;
  readonly requestId: string;
  /** "joe@pve" or "joe@pve!ci"; for a failed login the name that was tried; "" for nobody. */
  readonly user: string;
  readonly userGroups: readonly string[];
  /** create, update, delete, read, login, ... */
  readonly verb: string;
  /** The declared path, "/access/users/{userid}". */
  readonly resource: string;
  /** Which one: "joe@pve", "100". */
  readonly name: string;
  /** The tenant (pool) it belongs to; "" when it belongs to none. */
  readonly namespace: string;
  readonly sourceIP: string;
  readonly userAgent: string;
  readonly statusCode: number;
  readonly message: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** An entry as it is kept. `hash` is SHA-256 over the canonical JSON of all other fields. */
export interface AuditRecord extends AuditEntry {
  /** From 1, without gaps. */
  readonly seq: number;
  readonly prevHash: string;
  readonly hash: string;
}

export interface AuditFilters {
  readonly user?: string;
  readonly verb?: string;
  /** The resource or anything below it. */
  readonly resource?: string;
  /** Milliseconds since the epoch, inclusive. */
  readonly since?: number;
  /** Exclusive. */
  readonly until?: number;
  /** 403, or the class "4xx". */
  readonly status?: number | string;
  /** Only entries with a smaller sequence number: the next page when newest come first. */
  readonly before?: number;
  readonly limit?: number;
  readonly newestFirst?: boolean;
}

export type AuditIssueKind =
  /** A line is not what was written: its content or its spelling changed. */
  | "changed"
  /** Entries between two lines, or a whole file, are gone. */
  | "missing"
  /** A line stands where it does not belong: moved, copied or put in. */
  | "misplaced"
  /** The chain was written anew: every hash fits, but not the sealed one. */
  | "rewritten"
  /** The newest entries are gone. */
  | "truncated"
  /** Lines after the sealed head: from a crash, or added by someone. */
  | "unsealed"
  /** The sealed head or the anchor is gone or was not written by us. */
  | "seal";

export interface AuditIssue {
  readonly kind: AuditIssueKind;
  readonly file: string;
  /** From 1; 0 when no line is meant. */
  readonly line: number;
  readonly detail: string;
}

export interface AuditVerdict {
  readonly ok: boolean;
  readonly entries: number;
  /** Keep these two somewhere else: with them even a rollback of the whole directory is found. */
  readonly head: { readonly seq: number; readonly hash: string };
  readonly issues: readonly AuditIssue[];
  /** Notes the log made about itself when it started after a crash or found its files changed. */
  readonly recoveries: readonly {
    readonly seq: number;
    readonly timestamp: string;
    readonly message: string;
  }[];
}

export interface AuditLog {
  /** Resolves when the entry is on disk. Rejects when it is not; then nothing of it is kept. */
  append(entry: AuditEntry): Promise<void>;
  list(filters: AuditFilters): AsyncIterable<AuditRecord>;
  verify(): Promise<AuditVerdict>;
  close(): Promise<void>;
}

export function matchesAudit(entry: AuditRecord, filters: AuditFilters): boolean {
  const { user, verb, resource, since, until, status, before } = filters;
  if (user !== undefined && entry.user !== user) return false;
  if (verb !== undefined && entry.verb !== verb) return false;
  if (resource !== undefined && !isBelow(entry.resource, resource)) return false;
  if (status !== undefined && !hasStatus(entry.statusCode, String(status))) return false;
  if (before !== undefined && entry.seq >= before) return false;
  const at = Date.parse(entry.timestamp);
  return (since === undefined || at >= since) && (until === undefined || at < until);
}

function isBelow(path: string, above: string): boolean {
  const base = above.endsWith("/") ? above.slice(0, -1) : above;
  return path === base || path.startsWith(`${base}/`);
}

function hasStatus(code: number, wanted: string): boolean {
  return /^\dxx$/.test(wanted) ? String(code).startsWith(wanted.slice(0, 1)) : String(code) === wanted;
}
