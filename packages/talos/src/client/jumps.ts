// Which machines are reached through a jump, and which are reached as they are.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { PlatformJump } from "./platform-jump.ts";
import { type Dial, SshJump, type SshJumpDeps } from "./ssh-jump.ts";

type Place = Pick<ClusterFolder, "cluster" | "machines">;
type Provider = Cluster["providers"][number];

interface Jump {
  login(): Promise<void>;
  /** undefined = to whoever has the address. */
  dialOf(machine: string | undefined): Dial;
  close(): Promise<void>;
}

export interface JumpDeps extends SshJumpDeps {
  /** The platform's API, where its own lines are the jump. */
  readonly openClient?: (provider: Provider) => Promise<GpveClient>;
}

export class Jumps {
  readonly #place: Place;
  /** By provider. */
  readonly #jumps = new Map<string, Jump>();

  private constructor(place: Place) {
    this.#place = place;
  }

  /** Everybody is logged in to, or nobody. */
  static async open(place: Place, deps: JumpDeps): Promise<Jumps> {
    const opened = new Jumps(place);
    try {
      for (const provider of place.cluster.providers) {
        const jump = await jumpOf(place, provider, deps);
        if (jump === undefined) continue;
        opened.#jumps.set(provider.name, jump);
        await jump.login();
      }
    } catch (err) {
      await opened.close();
      throw err;
    }
    return opened;
  }

  /** undefined: it is routed from here. One that is no longer in the file is reached as the others are. */
  dialOf(machine: string): Dial | undefined {
    const provider = this.#place.machines.find(({ name }) => name === machine)?.provider;
    return this.#jumps.get(provider ?? this.#first())?.dialOf(machine);
  }

  /** The API's address is in the network of the first provider's machines. */
  endpoint(): Dial | undefined {
    return this.#jumps.get(this.#first())?.dialOf(undefined);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#jumps.values()].map((jump) => jump.close()));
  }

  #first(): string {
    return this.#place.cluster.providers[0]?.name ?? "";
  }
}

async function jumpOf(place: Place, provider: Provider, deps: JumpDeps): Promise<Jump | undefined> {
  const { jump, name } = provider;
  if (jump === undefined) return undefined;
  if (jump.kind === "ssh") return new SshJump({ ...jump, host: jump.host ?? "" }, deps);
  const client = await deps.openClient?.(provider);
  if (client === undefined)
    throw new AppError("internal.error", `nobody opens the API of ${name}, through which its machines are`);
  return new PlatformJump(place, name, client);
}
