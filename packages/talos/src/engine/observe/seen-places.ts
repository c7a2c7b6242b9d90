// Where guests were seen last. Platforms and people move machines: controllers look for a node's machine where it is, and
// not where the file had it made.
import type { Machine } from "../../cluster/machine.ts";
import type { GuestPlace } from "../../driver/driver.ts";
import type { World } from "../world.ts";

export class SeenPlaces {
  readonly #places = new Map<string, GuestPlace>();

  /** The names of those that are elsewhere than before. */
  look({ machines }: World): readonly string[] {
    return [...machines.values()].flatMap(({ name, guest }) => {
      const known = this.#places.get(name);
      if (known?.host === guest?.place.host && known?.vmid === guest?.place.vmid) return [];
      if (guest === undefined) this.#places.delete(name);
      else this.#places.set(name, guest.place);
      return [name];
    });
  }

  where(machine: Machine): Machine {
    return { ...machine, ...this.#places.get(machine.name) };
  }
}
