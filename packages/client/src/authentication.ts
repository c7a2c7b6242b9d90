// Who asks. A token needs nothing but a header; a ticket is fetched with the password, renewed while it is
// still valid, and needs the CSRF token on every write.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { encodeParams } from "./pve-encoding.ts";
import { isObject, responseError } from "./response-error.ts";
import type { ClientClock, Transport } from "./transport.ts";

export interface Ticket {
  readonly username: string;
  readonly ticket: string;
  readonly csrfToken: string;
  /** Milliseconds since the epoch. */
  readonly issuedAt: number;
}

export type Credentials =
  | { readonly kind: "anonymous" }
  /** "joe@pve!ci=SECRET" */
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "password"; readonly username: string; readonly password: string }
  /** The token (no login needed) until something only a ticket may do is refused; then the password. */
  | {
      readonly kind: "token-or-password";
      readonly token: string;
      readonly username: string;
      readonly password: string;
    }
  | { readonly kind: "ticket"; readonly ticket: Ticket };

export const TICKET_LIFETIME_MS = 2 * 3600_000;
const RENEW_AFTER_MS = 3600_000;
/** PVE's texts for what no token may do, not even one of root@pam. */
const NEEDS_TICKET = /user != root@pam|need proper ticket|^only root (?:can|may) /im;

export class Authentication {
  readonly #credentials: Credentials;
  readonly #transport: Transport;
  readonly #clock: ClientClock;
  readonly #onTicket: ((ticket: Ticket) => void) | undefined;
  #ticket: Ticket | undefined;
  #pending: Promise<Ticket> | undefined;
  #tokenRefused = false;

  constructor(deps: {
    credentials: Credentials;
    transport: Transport;
    clock: ClientClock;
    /** Told of every new ticket, so that a program can keep it. */
    onTicket?: (ticket: Ticket) => void;
  }) {
    this.#credentials = deps.credentials;
    this.#transport = deps.transport;
    this.#clock = deps.clock;
    this.#onTicket = deps.onTicket;
    this.#ticket = deps.credentials.kind === "ticket" ? deps.credentials.ticket : undefined;
  }

  /** The headers of one request. */
  async headers(write: boolean): Promise<Record<string, string>> {
    const credentials = this.#credentials;
    if (credentials.kind === "anonymous") return {};
    if (credentials.kind === "token" || (credentials.kind === "token-or-password" && !this.#tokenRefused)) {
      return { authorization: `PVEAPIToken=${credentials.token}` };
    }
    const ticket = await this.#current();
    return {
      cookie: `PVEAuthCookie=${encodeURIComponent(ticket.ticket)}`,
      ...(write ? { csrfpreventiontoken: ticket.csrfToken } : {}),
    };
  }

  /** After a refusal: true when other credentials could be had and the request is worth repeating once. */
  async renewAfterRefusal(refusal: AppError): Promise<boolean> {
    const { kind } = this.#credentials;
    if (kind === "token-or-password" && !this.#tokenRefused) {
      const texts = [refusal.message, ...Object.values(refusal.errors ?? {})];
      if (!texts.some((text) => NEEDS_TICKET.test(text))) return false;
      this.#tokenRefused = true;
      return true;
    }
    const hasPassword = kind === "password" || kind === "token-or-password";
    if (refusal.kind !== "unauthenticated" || !hasPassword || this.#ticket === undefined) return false;
    this.#ticket = undefined;
    await this.#current();
    return true;
  }

  /** Logs in now; used by `login` to check a password. */
  async ticket(): Promise<Ticket> {
    return this.#current();
  }

  async #current(): Promise<Ticket> {
    const held = this.#ticket;
    const age = held === undefined ? Number.POSITIVE_INFINITY : this.#clock.now() - held.issuedAt;
    if (held !== undefined && age < RENEW_AFTER_MS) return held;
    this.#pending ??= this.#fetch(age < TICKET_LIFETIME_MS ? held : undefined).finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #fetch(held: Ticket | undefined): Promise<Ticket> {
    const credentials = this.#credentials;
    if (held !== undefined) {
      try {
        return await this.#login(held.username, held.ticket);
      } catch (err) {
        if (credentials.kind === "ticket" || !isAppError(err, "auth.failed")) throw err;
      }
    }
    if ("password" in credentials) return this.#login(credentials.username, credentials.password);
    throw new AppError("auth.required", "the session has expired");
  }

  async #login(username: string, password: string): Promise<Ticket> {
    const path = "/api2/json/access/ticket";
    const response = await this.#transport.send({
      method: "POST",
      path,
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
      body: encodeParams({ username, password }),
    });
    if (response.status !== 200) throw await responseError(response, { method: "POST", path });
    const answer: unknown = JSON.parse(await response.text());
    const data = isObject(answer) ? answer["data"] : undefined;
    if (!isObject(data)) throw new AppError("internal.error", "the login answer carries no data");
    if (data["NeedTFA"] === 1) {
      throw new AppError(
        "feature.unsupported",
        `${username} needs a second factor; use an API token instead`,
      );
    }
    const { ticket, CSRFPreventionToken: csrf, username: who } = data;
    if (typeof ticket !== "string" || typeof csrf !== "string") {
      throw new AppError("internal.error", "the login answer carries no ticket");
    }
    const made: Ticket = {
      username: typeof who === "string" ? who : username,
      ticket,
      csrfToken: csrf,
      issuedAt: this.#clock.now(),
    };
    this.#ticket = made;
    this.#onTicket?.(made);
    return made;
  }
}
