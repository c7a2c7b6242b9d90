// Clusters that have left this node, in one file; read once, as nobody else writes it.
import type { FormerPlace, FormerPlaces } from "@gpve/domain/vcluster/cluster-places.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export class FileFormerPlaces implements FormerPlaces {
  readonly #path: string;
  #known: readonly FormerPlace[] | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  list(): readonly FormerPlace[] {
    this.#known ??= (readJsonFile(this.#path) as readonly FormerPlace[] | undefined) ?? [];
    return this.#known;
  }

  note(place: FormerPlace): void {
    this.#write([...this.#without(place.serverName), place]);
  }

  forget(serverName: string): void {
    this.#write(this.#without(serverName));
  }

  #without(serverName: string): readonly FormerPlace[] {
    return this.list().filter((each) => each.serverName !== serverName);
  }

  #write(places: readonly FormerPlace[]): void {
    writeFileAtomic(this.#path, `${JSON.stringify(places)}\n`);
    this.#known = places;
  }
}
