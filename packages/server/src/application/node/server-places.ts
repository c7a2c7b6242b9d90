// Where agents reach each server. A node that joins is told all of them, and follows them from then on: one that knew a
// single server would lose its lease with it, and with that its guests under HA.
import { placeCollection, type ServerPlace } from "@gpve/domain/node/server-place.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";

const LOOK_MS = 10 * 60_000;
/** Nobody says goodbye for a server that is gone for good; agents would try to reach it for ever. */
const GONE_AFTER_MS = 24 * 3_600_000;

export class ServerPlaces {
  readonly #records: Records;
  readonly #serves: (name: string) => Promise<boolean>;
  /** Since when others have been seen not to run, by this server's own clock. */
  readonly #awaySince = new Map<string, number>();

  constructor(records: Records, serves: (name: string) => Promise<boolean>) {
    this.#records = records;
    this.#serves = serves;
  }

  async note(place: ServerPlace): Promise<void> {
    const { name, url, fingerprint } = place;
    const known = this.#records.collection(placeCollection).get(name)?.value;
    if (known?.url === url && known.fingerprint === fingerprint) return;
    await this.#records.transact((tx) => tx.put(placeCollection, name, place));
  }

  /** What clients of the server of that name are shown; undefined = it has not told. */
  fingerprintOf(name: string): string | undefined {
    return this.#records.collection(placeCollection).get(name)?.value.fingerprint;
  }

  /** Until the signal: notes this server again should it have been forgotten, and forgets those that are long gone. */
  async keep(
    own: {
      readonly name: string;
      readonly url: string | undefined;
      /** It changes when the certificate is renewed. */
      readonly fingerprint: () => string;
    },
    deps: {
      readonly clock: Pick<Clock, "sleep" | "monotonic">;
      readonly signal: AbortSignal;
      readonly onFailure: (err: unknown) => void;
    },
  ): Promise<void> {
    const { clock, onFailure } = deps;
    await every(LOOK_MS, deps, async () => {
      try {
        const { name, url } = own;
        if (url !== undefined) await this.note({ name, url, fingerprint: own.fingerprint() });
        await this.#forgetGone(own.name, clock.monotonic());
      } catch (err) {
        if (!deps.signal.aborted) onFailure(err);
      }
    });
  }

  async #forgetGone(own: string, now: number): Promise<void> {
    for (const { value } of this.#records.collection(placeCollection).list()) {
      const { name } = value;
      if (name === own || (await this.#serves(name))) {
        this.#awaySince.delete(name);
        continue;
      }
      const since = this.#awaySince.get(name) ?? now;
      this.#awaySince.set(name, since);
      if (now - since < GONE_AFTER_MS) continue;
      this.#awaySince.delete(name);
      await this.forget(name);
    }
  }

  /** It is gone for good: agents turn to it no more. Should it start again, it notes itself again. */
  async forget(name: string): Promise<void> {
    await this.#records.transact((tx) => tx.delete(placeCollection, name));
  }

  /** Of those that run: nobody says goodbye for a server that is gone for good. */
  async urls(): Promise<readonly string[]> {
    await this.#records.fresh();
    const places = this.#records.collection(placeCollection).list();
    const running = await Promise.all(places.map(({ value }) => this.#serves(value.name)));
    return places.filter((_place, at) => running[at]).map(({ value }) => value.url);
  }
}
