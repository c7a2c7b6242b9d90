// Who sends a request: by ticket (cookie or header) or by API token. The texts are PVE's.
import { AppError } from "@gpve/contracts/errors.ts";
import { parseTokenid } from "@gpve/domain/access/ids.ts";
import type { AccessModel } from "@gpve/domain/access/model.ts";
import type { Sealer, TicketService, TokenSecrets } from "@gpve/domain/access/ports.ts";
import { isActive } from "@gpve/domain/access/privileges.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import type { SealedSecret } from "./secret-collections.ts";
import { tokenSecretContext, tokenSecretsDef } from "./secret-collections.ts";

export interface Credentials {
  readonly method: string;
  /** Below the format, decoded: "/access/ticket". */
  readonly path: string;
  /** The cookie's value as it was sent. */
  readonly cookieTicket: string | undefined;
  readonly authorization: string | undefined;
  readonly csrfToken: string | undefined;
  readonly clientAddress: string;
}

export interface Authenticated {
  readonly actor: Actor | undefined;
  /** "token" with no actor: a token was sent to a method that authenticates nobody. */
  readonly via: "ticket" | "token" | "none";
  /**
   * For a token: whether who was believed just now would be believed again, and may still do what he could. The very
   * same function for all requests of one token as long as it holds.
   */
  readonly holds?: () => boolean;
}

export interface AuthenticatorDeps {
  readonly directory: AccessDirectory;
  readonly records: Records;
  readonly tickets: TicketService;
  readonly sealer: Sealer;
  readonly secrets: TokenSecrets;
  readonly clock: Clock;
}

const OPEN = new Set([
  "GET /access/domains",
  "GET /access/ticket",
  "POST /access/ticket",
  "POST /access/vncticket",
  "POST /access/openid/login",
  "POST /access/openid/auth-url",
]);
const TICKET_HEADER = /(?:^|\s)PVEAuthCookie[= ]([^;]*)/;
const TOKEN_HEADER = /(?:^|\s)PVEAPIToken[= ]([^;]*)/;
const UPLOAD = /^\/nodes\/[^/]+\/storage\/[^/]+\/upload$/;
/** How often a credential nobody knows may make this server ask the store for news. */
const REFRESH_EVERY_MS = 1_000;
const REFRESH_TIMEOUT_MS = 2_000;

export class Authenticator {
  readonly #deps: AuthenticatorDeps;
  readonly #digests = new WeakMap<Entry<SealedSecret>, string>();
  readonly #holds = new WeakMap<
    Entry<SealedSecret>,
    { readonly model: AccessModel; readonly holds: () => boolean }
  >();
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: AuthenticatorDeps) {
    this.#deps = deps;
  }

  async authenticate(credentials: Credentials): Promise<Authenticated> {
    const ticket = decoded(credentials.cookieTicket) ?? fromHeader(credentials.authorization, TICKET_HEADER);
    const token = ticket === undefined ? fromHeader(credentials.authorization, TOKEN_HEADER) : undefined;
    if (OPEN.has(`${credentials.method} ${credentials.path}`)) {
      return { actor: undefined, via: token === undefined ? "none" : "token" };
    }
    if (token !== undefined) {
      const actor = await this.#retried(() => this.#byToken(token));
      return { actor, via: "token", holds: this.#holdsFor(actor) };
    }
    if (ticket === undefined) throw new AppError("auth.required", "No ticket");
    const actor = await this.#retried(() => this.#byTicket(ticket));
    this.#requireCsrf(actor, credentials);
    return { actor, via: "ticket" };
  }

  /** What another server just made may not have reached this one: ask the store once before refusing. */
  async #retried(find: () => Actor | undefined): Promise<Actor> {
    let actor = find();
    if (actor === undefined && this.#mayRefresh()) {
      await this.#refresh();
      actor = find();
    }
    if (actor === undefined) throw new AppError("auth.failed", "Authentication failed!");
    return actor;
  }

  async #refresh(): Promise<void> {
    try {
      await this.#deps.records.fresh({ signal: AbortSignal.timeout(REFRESH_TIMEOUT_MS) });
    } catch (err) {
      ignore(err, "the store is away: what this server knows decides");
    }
  }

  #mayRefresh(): boolean {
    const now = this.#deps.clock.monotonic();
    if (now - this.#refreshedAt < REFRESH_EVERY_MS) return false;
    this.#refreshedAt = now;
    return true;
  }

  #byTicket(ticket: string): Actor | undefined {
    const { directory, tickets } = this.#deps;
    const userid = tickets.verify(ticket)?.userid;
    if (userid === undefined) return undefined;
    if (!isActive(directory.model().users.get(userid), directory.nowSeconds())) return undefined;
    return { userid, authid: userid };
  }

  #byToken(text: string): Actor | undefined {
    const { directory, secrets } = this.#deps;
    const border = text.lastIndexOf("=");
    const name = parseTokenid(text.slice(0, Math.max(0, border)));
    if (name === undefined) return undefined;
    const { users, tokens } = directory.model();
    const now = directory.nowSeconds();
    if (!isActive(users.get(name.userid), now) || !isActive(tokens.get(name.authid), now)) return undefined;
    const digest = this.#digestOf(name.authid);
    if (digest === undefined || !secrets.matches(text.slice(border + 1), digest)) return undefined;
    return name;
  }

  /** Taken after the token was judged: what changed in between makes it another model or secret at the next request. */
  #holdsFor({ userid, authid }: Actor): () => boolean {
    const { directory, records } = this.#deps;
    const model = directory.model();
    const secret = records.collection(tokenSecretsDef).get(authid);
    const known = secret === undefined ? undefined : this.#holds.get(secret);
    if (known?.model === model) return known.holds;
    const until = earliest(model.users.get(userid)?.expire, model.tokens.get(authid)?.expire);
    const holds = (): boolean =>
      secret !== undefined &&
      records.collection(tokenSecretsDef).get(authid) === secret &&
      directory.model() === model &&
      directory.nowSeconds() <= until;
    if (secret !== undefined) this.#holds.set(secret, { model, holds });
    return holds;
  }

  #digestOf(authid: string): string | undefined {
    const entry = this.#deps.records.collection(tokenSecretsDef).get(authid);
    if (entry === undefined) return undefined;
    const known = this.#digests.get(entry);
    if (known !== undefined) return known;
    const digest = this.#deps.sealer.open(entry.value.sealed, tokenSecretContext(authid));
    this.#digests.set(entry, digest);
    return digest;
  }

  #requireCsrf(actor: Actor, { method, path, csrfToken }: Credentials): void {
    if (method === "GET" || (method === "POST" && UPLOAD.test(path))) return;
    if (csrfToken !== undefined && this.#deps.tickets.verifyCsrf(actor.userid, csrfToken)) return;
    throw new AppError("auth.failed", "Permission denied - invalid csrf token");
  }
}

/** 0 = never. */
function earliest(...expires: readonly (number | undefined)[]): number {
  return Math.min(...expires.map((at) => (at === undefined || at === 0 ? Number.POSITIVE_INFINITY : at)));
}

/** `NAME=value` or `NAME value`, up to a semicolon. */
function fromHeader(header: string | undefined, pattern: RegExp): string | undefined {
  if (header === undefined) return undefined;
  return decoded(pattern.exec(header)?.[1]);
}

/** Percent-decoded; what cannot be decoded is taken as it is and will match nothing. Empty counts as absent. */
function decoded(value: string | undefined): string | undefined {
  if (value === undefined || value === "") return undefined;
  if (!value.includes("%")) return value;
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
