// The keys that sign tickets: one record in the store, sealed, shared by all servers. The current key is
// replaced after a day; its predecessor still verifies what it signed.
import type { KeyObject } from "node:crypto";
import { createPrivateKey, createPublicKey, generateKeyPair, randomBytes } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

export const KEY_LIFETIME_SECONDS = 24 * 3600;
/** Clocks of servers may differ by this much. */
export const GRACE_SECONDS = 300;
const RSA_BITS = 2048;

export interface SigningKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly createdAt: number;
  /** When its successor took over; undefined = still signing. */
  readonly rotatedAt: number | undefined;
}

export interface TicketKeySet {
  readonly current: SigningKey;
  readonly previous: SigningKey | undefined;
  readonly csrfSecret: Buffer;
}

interface KeyRecord {
  readonly sealed: string;
}

interface PlainKeys {
  readonly current: { readonly pem: string; readonly createdAt: number };
  readonly previous?: { readonly pem: string; readonly createdAt: number; readonly rotatedAt: number };
  readonly csrf: string;
}

const keysDef: CollectionDef<KeyRecord> = {
  prefix: "/gpve/secrets/tickets/",
  decode: (json) => json as KeyRecord,
};
const ID = "keys";
const CONTEXT = "tickets/keys";

export interface TicketKeysDeps {
  readonly records: Records;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** A new private key, PKCS 8 in PEM. Making one takes a tenth of a second. */
  readonly newKey?: () => Promise<string>;
}

export class TicketKeys {
  readonly #deps: TicketKeysDeps;
  #opened: { sealed: string; keys: TicketKeySet } | undefined;

  constructor(deps: TicketKeysDeps) {
    this.#deps = deps;
  }

  /** Keys fit for signing now: made on first use, replaced when a day old. */
  async forSigning(): Promise<TicketKeySet> {
    const now = this.#now();
    const present = this.peek();
    if (present !== undefined && !isStale(present.current.createdAt, now)) return present;
    const pem = await (this.#deps.newKey ?? generatePem)();
    const { records, sealer } = this.#deps;
    await records.transact((tx) => {
      const stored = tx.get(keysDef, ID);
      const old = stored === undefined ? undefined : this.#unseal(stored.value.sealed);
      // Another server was quicker.
      if (old !== undefined && !isStale(old.current.createdAt, now)) return;
      const next: PlainKeys = {
        current: { pem, createdAt: now },
        ...(old === undefined ? {} : { previous: { ...old.current, rotatedAt: now } }),
        csrf: old?.csrf ?? randomBytes(32).toString("base64"),
      };
      tx.put(keysDef, ID, { sealed: sealer.seal(JSON.stringify(next), CONTEXT) });
    });
    const made = this.peek();
    if (made === undefined)
      throw new AppError("internal.error", "the ticket keys were stored but cannot be read");
    return made;
  }

  /** The keys this server knows, without any waiting. */
  peek(): TicketKeySet | undefined {
    const entry = this.#deps.records.collection(keysDef).get(ID);
    if (entry === undefined) return undefined;
    const { sealed } = entry.value;
    if (this.#opened?.sealed !== sealed) this.#opened = { sealed, keys: parseKeys(this.#unseal(sealed)) };
    return this.#opened.keys;
  }

  #unseal(sealed: string): PlainKeys {
    return JSON.parse(this.#deps.sealer.open(sealed, CONTEXT)) as PlainKeys;
  }

  #now(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}

/** Too old, or made by a server whose clock runs ahead of the grace. */
function isStale(createdAt: number, now: number): boolean {
  return now - createdAt >= KEY_LIFETIME_SECONDS || createdAt > now + GRACE_SECONDS;
}

function parseKeys(plain: PlainKeys): TicketKeySet {
  const key = (from: { pem: string; createdAt: number }, rotatedAt?: number): SigningKey => {
    const privateKey = createPrivateKey(from.pem);
    return { privateKey, publicKey: createPublicKey(privateKey), createdAt: from.createdAt, rotatedAt };
  };
  return {
    current: key(plain.current),
    previous: plain.previous === undefined ? undefined : key(plain.previous, plain.previous.rotatedAt),
    csrfSecret: Buffer.from(plain.csrf, "base64"),
  };
}

export function generatePem(): Promise<string> {
  return new Promise((resolve, reject) => {
    generateKeyPair(
      "rsa",
      {
        modulusLength: RSA_BITS,
        publicKeyEncoding: { type: "spki", format: "pem" },
        privateKeyEncoding: { type: "pkcs8", format: "pem" },
      },
      (err, _publicKey, privateKey) => (err === null ? resolve(privateKey) : reject(err)),
    );
  });
}
