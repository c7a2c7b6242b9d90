// Looks at everything anew: platforms, machines, Kubernetes.
import { given } from "@gpve/contracts/given.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { Machine, Pinned } from "../../cluster/machine.ts";
import type { Driver } from "../../driver/driver.ts";
import type { Kubernetes } from "../../kubernetes/kubernetes.ts";
import { machineUuid } from "../../machine/identity.ts";
import { lookAtProvider } from "../../preflight/preflight.ts";
import { ConfigReader, type ReadConfig } from "../config-parts.ts";
import { goneMachines, isToldOf } from "./gone-machines.ts";
import { guestsWorld } from "./look-at-guests.ts";
import { reachedAt } from "./machine-address.ts";
import { lookAtMachine } from "./look-at-machine.ts";
import type { Machines } from "../machines-port.ts";
import type { SeenAddon, SeenKubernetes, SeenMachine, SeenTalos, World } from "../world.ts";

export interface ObserverDeps {
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  readonly config: (machine: Machine) => ReadConfig;
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly talos: Machines;
  readonly kubernetes: Kubernetes;
  /** What is installed, and whether it is well. */
  readonly addons: (kubernetes: Kubernetes) => Promise<ReadonlyMap<string, SeenAddon>>;
  readonly snapshotAt: () => number | undefined;
  /** Machines that were once made, by their names. */
  readonly formerly?: () => Readonly<Record<string, Pinned>>;
  /** Told of where guests are before configurations are asked for. */
  readonly placed?: (world: World) => void;
  readonly now: () => number;
}

export interface Observer {
  observe(): Promise<World>;
}

export class RealObserver implements Observer {
  readonly #deps: ObserverDeps;
  readonly #reader = new ConfigReader();
  #running: Promise<World> | undefined;
  #next: Promise<World> | undefined;

  constructor(deps: ObserverDeps) {
    this.#deps = deps;
  }

  /** Begun after it was asked for; whoever asks meanwhile shares it. */
  observe(): Promise<World> {
    if (this.#running === undefined) return this.#begin();
    this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  #begin(): Promise<World> {
    this.#next = undefined;
    const looking = this.#look().finally(() => {
      if (this.#running === looking) this.#running = undefined;
    });
    this.#running = looking;
    return looking;
  }

  async #look(): Promise<World> {
    const { cluster, machines, drivers, now, snapshotAt } = this.#deps;
    const observed = await Promise.all(
      cluster.providers.flatMap((provider) => {
        const driver = drivers.get(provider.name);
        return driver === undefined ? [] : [lookAtProvider(driver, provider, cluster, "ours")];
      }),
    );
    const world = guestsWorld(cluster, machines, observed, now(), this.#formerly);
    this.#deps.placed?.(world);
    const [inside, kubernetes] = await Promise.all([
      Promise.all([...world.machines.values()].map((seen) => this.#inside(seen))),
      this.#kubernetes(),
    ]);
    const seen: World = {
      ...world,
      machines: new Map(inside.map((each) => [each.name, each])),
      kubernetes,
      snapshotAt: snapshotAt(),
    };
    const gone = goneMachines(cluster, this.#formerly, seen);
    const all = { ...seen, machines: new Map([...inside, ...gone].map((each) => [each.name, each])) };
    return this.#withHidden(all, (each) => isToldOf(all, each));
  }

  /** Before everything goes: machines that were once made, and that no platform shows, are asked whether they are there. */
  async withHidden(world: World): Promise<World> {
    return this.#withHidden(world, ({ name }) => this.#formerly[name] !== undefined);
  }

  async #withHidden(world: World, isAsked: (seen: SeenMachine) => boolean): Promise<World> {
    const machines = await Promise.all(
      [...world.machines.values()].map(async (seen): Promise<SeenMachine> => {
        if (seen.guest !== undefined || !isAsked(seen)) return seen;
        return (await this.#answers(seen)) ? { ...seen, isHidden: true } : seen;
      }),
    );
    return { ...world, machines: new Map(machines.map((seen) => [seen.name, seen])) };
  }

  /** Where it was made, whatever the file says by now. */
  async #answers({ name, role }: SeenMachine): Promise<boolean> {
    const { cluster, machines, talos } = this.#deps;
    const machine = machines.find((each) => each.name === name);
    const address = this.#formerly[name]?.addresses[0] ?? machine?.addresses[0] ?? "";
    const uuid = machineUuid(cluster.metadata.name, name);
    const question = { name, address, uuid, role, wanted: undefined };
    const { state } = await lookAtMachine(talos, question, this.#reader);
    return state === "configured" || state === "maintenance";
  }

  get #formerly(): Readonly<Record<string, Pinned>> {
    return this.#deps.formerly?.() ?? {};
  }

  #former({ name }: SeenMachine): Pick<SeenMachine, "address"> {
    return given({ address: this.#formerly[name]?.addresses[0] });
  }

  async #inside(seen: SeenMachine): Promise<SeenMachine> {
    if (seen.guest?.isRunning !== true) return seen;
    const known = { ...seen, ...this.#former(seen) };
    return { ...known, talos: await this.#talos(known) };
  }

  #talos(seen: SeenMachine): Promise<SeenTalos> {
    const { cluster, machines, talos, config } = this.#deps;
    const machine = machines.find(({ name }) => name === seen.name);
    const address = machine === undefined ? addressOf(seen) : reachedAt(machine, seen);
    const uuid = machine?.uuid ?? machineUuid(cluster.metadata.name, seen.name);
    const wanted = machine === undefined ? undefined : config(machine);
    return lookAtMachine(talos, { name: seen.name, address, uuid, role: seen.role, wanted }, this.#reader);
  }

  async #kubernetes(): Promise<SeenKubernetes | undefined> {
    const { kubernetes, addons } = this.#deps;
    try {
      const nodes = await kubernetes.nodes();
      return {
        nodes: await Promise.all(
          nodes.map(async (node) => ({
            ...node,
            evictable: node.isCordoned ? (await kubernetes.evictablePods(node.name)).length : 0,
          })),
        ),
        addons: await addons(kubernetes),
      };
    } catch (err) {
      if (isAppError(err) && ["unavailable", "timeout", "unauthenticated"].includes(err.kind))
        return undefined;
      throw err;
    }
  }
}

/** Of a machine that is no longer in the file: as it was made, or written down. */
export function addressOf(seen: SeenMachine): string {
  const made = /(?:^|,)ip6?=([0-9a-fA-F.:]+)\//.exec(seen.guest?.config["ipconfig0"] ?? "")?.[1];
  return made ?? seen.address ?? "";
}
