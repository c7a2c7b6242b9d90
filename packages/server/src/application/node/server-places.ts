// Where agents reach each server, as it wrote it down when it started. A node that joins is told all of them: one that
// knew a single server would lose its lease with it, and with that its guests under HA.
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

interface ServerPlace {
  readonly name: string;
  /** "https://192.0.2.11:8006" */
  readonly url: string;
}

const placeCollection: CollectionDef<ServerPlace> = {
  prefix: "/gpve/servers/",
  decode: (json) => {
    const { name, url } = (json ?? {}) as Partial<ServerPlace>;
    if (typeof name !== "string" || typeof url !== "string") throw new Error("a server's place has no url");
    return { name, url };
  },
};

export class ServerPlaces {
  readonly #records: Records;
  readonly #serves: (name: string) => Promise<boolean>;

  constructor(records: Records, serves: (name: string) => Promise<boolean>) {
    this.#records = records;
    this.#serves = serves;
  }

  async note(name: string, url: string): Promise<void> {
    if (this.#records.collection(placeCollection).get(name)?.value.url === url) return;
    await this.#records.transact((tx) => tx.put(placeCollection, name, { name, url }));
  }

  /** Of those that run: nobody says goodbye for a server that is gone for good. */
  async urls(): Promise<readonly string[]> {
    await this.#records.fresh();
    const places = this.#records.collection(placeCollection).list();
    const running = await Promise.all(places.map(({ value }) => this.#serves(value.name)));
    return places.filter((_place, at) => running[at]).map(({ value }) => value.url);
  }
}
