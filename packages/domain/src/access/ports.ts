// What the access use cases need from the outside: cryptography, keys and the host's own accounts.

/** Slow on purpose; never blocks the event loop. */
export interface PasswordHasher {
  hash(password: string): Promise<string>;
  /** false also for a hash nobody understands. */
  verify(password: string, hash: string): Promise<boolean>;
}

/** Encrypts what lies in the store. `context` names the place: a sealed text opens only where it was made. */
export interface Sealer {
  seal(plain: string, context: string): string;
  /** Throws when the text was changed, moved, or sealed with another master key. */
  open(sealed: string, context: string): string;
}

export interface TokenSecrets {
  /** A fresh lower-case UUID. */
  generate(): string;
  digest(secret: string): string;
  /** Takes the same time wherever the difference is. */
  matches(secret: string, digest: string): boolean;
}

export interface VerifiedTicket {
  readonly userid: string;
  readonly ageSeconds: number;
}

/** Tickets and CSRF tokens in PVE's form, signed with keys that all servers share. */
export interface TicketService {
  issue(userid: string): Promise<string>;
  verify(ticket: string): VerifiedTicket | undefined;
  /** What a realm asks of somebody who is not let in yet; no ticket to anything. */
  issueChallenge(userid: string, challenge: string): Promise<string>;
  /** The challenge, where this user was asked it lately. */
  verifyChallenge(ticket: string, userid: string): string | undefined;
  issueCsrf(userid: string): string;
  verifyCsrf(userid: string, token: string): boolean;
  /** For one console of one object; 40 seconds. */
  issueVnc(authid: string, path: string, port?: number): Promise<string>;
  verifyVnc(ticket: string, authid: string, path: string, port?: number): boolean;
}

export type HostAuthentication =
  | { readonly ok: true }
  /** `reason` is for the log, never for the client. */
  | { readonly ok: false; readonly reason: string };

/** Accounts of the machine the server runs on, through PAM. */
export interface HostAccounts {
  authenticate(user: string, password: string, signal?: AbortSignal): Promise<HostAuthentication>;
  setPassword(user: string, password: string, signal?: AbortSignal): Promise<void>;
}
