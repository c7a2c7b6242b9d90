import type { KeyObject } from "node:crypto";
import { createHmac, sign, timingSafeEqual, verify } from "node:crypto";
import { parseUserid } from "@gpve/domain/access/ids.ts";
import type { TicketService, VerifiedTicket } from "@gpve/domain/access/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { SigningKey, TicketKeySet, TicketKeys } from "./ticket-keys.ts";
import { GRACE_SECONDS, KEY_LIFETIME_SECONDS } from "./ticket-keys.ts";
import { hexTime, parseTicket, ticketText } from "./ticket-text.ts";

export const TICKET_LIFETIME_SECONDS = 2 * 3600;
const CHALLENGE = "!tfa!";
/** Long enough to look for a phone. */
const CHALLENGE_LIFETIME_SECONDS = 300;
const VNC_MIN_AGE = -20;
const VNC_MAX_AGE = 40;
const MAX_REMEMBERED = 10_000;

/** Makes sure there are keys, so that verifying never has to wait. */
export async function openTickets(deps: {
  readonly keys: TicketKeys;
  readonly clock: Clock;
}): Promise<Tickets> {
  await deps.keys.forSigning();
  return new Tickets(deps);
}

export class Tickets implements TicketService {
  readonly #keys: TicketKeys;
  readonly #clock: Clock;
  /** Tickets whose signature was checked, oldest use first: a session costs one RSA operation, not one a request. */
  readonly #verified = new Map<string, { userid: string; time: number; key: KeyObject }>();

  constructor(deps: { readonly keys: TicketKeys; readonly clock: Clock }) {
    this.#keys = deps.keys;
    this.#clock = deps.clock;
  }

  async issue(userid: string): Promise<string> {
    const { current } = await this.#keys.forSigning();
    return this.#sign(ticketText("PVE", userid, this.#now()), undefined, current);
  }

  verify(ticket: string): VerifiedTicket | undefined {
    const keys = this.#keys.peek();
    if (keys === undefined) return undefined;
    const now = this.#now();
    const known = this.#verified.get(ticket);
    if (known !== undefined) {
      const age =
        keyOf(keys, known.key) === undefined ? undefined : this.#age(known.time, keyOf(keys, known.key), now);
      this.#verified.delete(ticket);
      if (age === undefined) return undefined;
      this.#verified.set(ticket, known);
      return { userid: known.userid, ageSeconds: age };
    }
    const text = parseTicket(ticket, "PVE");
    if (text?.data === undefined || parseUserid(text.data) === undefined) return undefined;
    for (const key of [keys.current, keys.previous]) {
      const age = this.#age(text.time, key, now);
      if (key === undefined || age === undefined) continue;
      if (!verify("sha256", Buffer.from(text.signed), key.publicKey, text.signature)) continue;
      this.#remember(ticket, { userid: text.data, time: text.time, key: key.publicKey });
      return { userid: text.data, ageSeconds: age };
    }
    return undefined;
  }

  async issueChallenge(userid: string, challenge: string): Promise<string> {
    const { current } = await this.#keys.forSigning();
    return this.#sign(ticketText("PVE", `${CHALLENGE}${challenge}`, this.#now()), userid, current);
  }

  verifyChallenge(ticket: string, userid: string): string | undefined {
    const keys = this.#keys.peek();
    const text = parseTicket(ticket, "PVE");
    if (keys === undefined || text?.data?.startsWith(CHALLENGE) !== true) return undefined;
    const full = Buffer.from(`${text.signed}:${userid}`);
    const isOurs = [keys.current, keys.previous].some((key) => {
      const age = this.#age(text.time, key, this.#now());
      if (key === undefined || age === undefined || age > CHALLENGE_LIFETIME_SECONDS) return false;
      return verify("sha256", full, key.publicKey, text.signature);
    });
    return isOurs ? text.data.slice(CHALLENGE.length) : undefined;
  }

  issueCsrf(userid: string): string {
    const stamp = hexTime(this.#now());
    return `${stamp}:${this.#csrfDigest(stamp, userid)}`;
  }

  verifyCsrf(userid: string, token: string): boolean {
    const match = /^([0-9A-F]{8}):([A-Za-z0-9+/]{43})$/.exec(token);
    if (match === null) return false;
    const [, stamp = "", given = ""] = match;
    if (!timingSafeEqual(Buffer.from(given), Buffer.from(this.#csrfDigest(stamp, userid)))) return false;
    const age = this.#now() - Number.parseInt(stamp, 16);
    return age > -GRACE_SECONDS && age < TICKET_LIFETIME_SECONDS;
  }

  async issueVnc(authid: string, path: string, port?: number): Promise<string> {
    const { current } = await this.#keys.forSigning();
    return this.#sign(ticketText("PVEVNC", undefined, this.#now()), vncBinding(authid, path, port), current);
  }

  verifyVnc(ticket: string, authid: string, path: string, port?: number): boolean {
    const keys = this.#keys.peek();
    // PVE 9.2 puts the eight characters of the VNC password in front.
    const text = parseTicket(ticket.replace(/^[^:]{8}:(?=PVEVNC:)/, ""), "PVEVNC");
    if (keys === undefined || text === undefined || text.data !== undefined) return false;
    const age = this.#now() - text.time;
    if (age <= VNC_MIN_AGE || age >= VNC_MAX_AGE) return false;
    const full = Buffer.from(`${text.signed}:${vncBinding(authid, path, port)}`);
    return [keys.current, keys.previous].some(
      (key) =>
        key !== undefined &&
        (key.rotatedAt === undefined || text.time <= key.rotatedAt + GRACE_SECONDS) &&
        verify("sha256", full, key.publicKey, text.signature),
    );
  }

  /** Stands in for a host name: lower case only, and no secret, since it travels in clear. */
  issueSpice(vmid: number, node: string): string {
    const signed = `pvespiceproxy:${hexTime(this.#now()).toLowerCase()}:${vmid}:${node.toLowerCase()}`;
    return `${signed}::${this.#spiceDigest(signed)}`;
  }

  verifySpice(ticket: string): { readonly vmid: number; readonly node: string } | undefined {
    const match = /^(pvespiceproxy:([0-9a-f]{8}):(\d{3,9}):([a-z0-9.-]+))::([0-9a-f]{40})$/.exec(ticket);
    if (match === null || this.#keys.peek() === undefined) return undefined;
    const [, signed = "", stamp = "", vmid = "", node = "", given = ""] = match;
    if (!timingSafeEqual(Buffer.from(given), Buffer.from(this.#spiceDigest(signed)))) return undefined;
    const age = this.#now() - Number.parseInt(stamp, 16);
    return age > VNC_MIN_AGE && age < VNC_MAX_AGE ? { vmid: Number(vmid), node } : undefined;
  }

  #spiceDigest(signed: string): string {
    const secret = this.#keys.peek()?.csrfSecret ?? Buffer.alloc(0);
    return createHmac("sha256", secret).update(signed).digest("hex").slice(0, 40);
  }

  #sign(text: string, additional: string | undefined, key: SigningKey): Promise<string> {
    const full = Buffer.from(additional === undefined ? text : `${text}:${additional}`);
    return new Promise((resolve, reject) => {
      sign("sha256", full, key.privateKey, (err, signature) =>
        err === null ? resolve(`${text}::${signature.toString("base64")}`) : reject(err),
      );
    });
  }

  /** Seconds since the ticket was made, or undefined when this key may not have signed it then. */
  #age(time: number, key: SigningKey | undefined, now: number): number | undefined {
    if (key === undefined) return undefined;
    const age = now - time;
    let min = -GRACE_SECONDS;
    let max = TICKET_LIFETIME_SECONDS;
    if (key.rotatedAt === undefined) {
      const keyAge = Math.max(0, now - key.createdAt);
      // Nothing is signed by a key that should have been replaced, nor by one before it existed.
      if (keyAge > KEY_LIFETIME_SECONDS) min = keyAge - KEY_LIFETIME_SECONDS;
      if (keyAge < TICKET_LIFETIME_SECONDS) max = keyAge + GRACE_SECONDS;
    } else {
      min = Math.max(0, now - key.rotatedAt) - GRACE_SECONDS;
    }
    return age > min && age < max && age < TICKET_LIFETIME_SECONDS ? age : undefined;
  }

  #csrfDigest(stamp: string, userid: string): string {
    const secret = this.#keys.peek()?.csrfSecret ?? Buffer.alloc(0);
    return createHmac("sha256", secret).update(`${stamp}:${userid}`).digest("base64").replaceAll("=", "");
  }

  #remember(ticket: string, facts: { userid: string; time: number; key: KeyObject }): void {
    if (this.#verified.size >= MAX_REMEMBERED) {
      const oldest = this.#verified.keys().next();
      if (oldest.done !== true) this.#verified.delete(oldest.value);
    }
    this.#verified.set(ticket, facts);
  }

  #now(): number {
    return Math.floor(this.#clock.now() / 1000);
  }
}

function keyOf(keys: TicketKeySet, publicKey: KeyObject): SigningKey | undefined {
  return [keys.current, keys.previous].find((key) => key?.publicKey.equals(publicKey) === true);
}

function vncBinding(authid: string, path: string, port: number | undefined): string {
  return port === undefined ? `${authid}:${path}` : `${authid}:${path}:${port}`;
}
