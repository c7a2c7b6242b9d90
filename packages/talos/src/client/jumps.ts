// Which machines are reached through a jump, and which are reached as they are.
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { type Dial, type JumpDeps, SshJump } from "./ssh-jump.ts";

type Place = Pick<ClusterFolder, "cluster" | "machines">;

export class Jumps {
  readonly #place: Place;
  /** By provider. */
  readonly #jumps: ReadonlyMap<string, SshJump>;

  private constructor(place: Place, jumps: ReadonlyMap<string, SshJump>) {
    this.#place = place;
    this.#jumps = jumps;
  }

  /** Everybody is logged in to, or nobody. */
  static async open(place: Place, deps: JumpDeps): Promise<Jumps> {
    const jumps = new Map(
      place.cluster.providers.flatMap(({ name, jump }) =>
        jump === undefined ? [] : [[name, new SshJump(jump, deps)] as const],
      ),
    );
    const opened = new Jumps(place, jumps);
    try {
      for (const jump of jumps.values()) await jump.login();
    } catch (err) {
      await opened.close();
      throw err;
    }
    return opened;
  }

  /** undefined: it is routed from here. One that is no longer in the file is reached as the others are. */
  dialOf(machine: string): Dial | undefined {
    const provider = this.#place.machines.find(({ name }) => name === machine)?.provider;
    return provider === undefined ? this.endpoint() : this.#jumps.get(provider)?.dial;
  }

  /** The API's address is in the network of the first provider's machines. */
  endpoint(): Dial | undefined {
    const [first] = this.#place.cluster.providers;
    return this.#jumps.get(first?.name ?? "")?.dial;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#jumps.values()].map((jump) => jump.close()));
  }
}
