// What dnsmasq has given to whom: one line per lease, `expiry mac address name client-id`. Read again when it changes.
import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import type { Clock } from "@gpve/kit/clock.ts";
import { ignore } from "@gpve/kit/background.ts";

interface Lease {
  readonly address: string;
  /** Milliseconds; Infinity = it does not end. */
  readonly expiresAt: number;
}

interface Known {
  readonly version: string;
  readonly leases: ReadonlyMap<string, Lease>;
}

export class DhcpLeases {
  readonly #files: readonly string[];
  readonly #clock: Pick<Clock, "now">;
  readonly #known = new Map<string, Known>();

  constructor(files: readonly string[], clock: Pick<Clock, "now">) {
    this.#files = files;
    this.#clock = clock;
  }

  /** The address that a card with this MAC has now, in the first file that knows one. */
  addressOf(mac: string): string | undefined {
    for (const file of this.#files) {
      const lease = this.#leases(file).get(mac.toLowerCase());
      if (lease !== undefined && lease.expiresAt > this.#clock.now()) return lease.address;
    }
    return undefined;
  }

  #leases(file: string): ReadonlyMap<string, Lease> {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return new Map();
    const version = `${found.ino}/${found.size}/${found.mtimeMs}`;
    const known = this.#known.get(file);
    if (known?.version === version) return known.leases;
    try {
      const leases = parseLeases(readFileSync(file, "utf8"));
      this.#known.set(file, { version, leases });
      return leases;
    } catch (err) {
      ignore(err, "dnsmasq is just replacing it");
      return known?.leases ?? new Map<string, Lease>();
    }
  }
}

/** Lines that are no lease, and half a line at the end, are passed over. */
export function parseLeases(text: string): ReadonlyMap<string, Lease> {
  const leases = new Map<string, Lease>();
  for (const line of text.split("\n")) {
    const [expiry = "", mac = "", address = ""] = line.split(" ");
    if (!/^\d+$/.test(expiry) || !/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(mac) || isIP(address) === 0)
      continue;
    leases.set(mac.toLowerCase(), {
      address,
      expiresAt: expiry === "0" ? Number.POSITIVE_INFINITY : Number(expiry) * 1000,
    });
  }
  return leases;
}
