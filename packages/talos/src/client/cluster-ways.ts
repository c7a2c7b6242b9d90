// How a cluster is reached: its machines and its Kubernetes, with secrets that may be replaced on the way.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { createKubernetesAccess, type KubernetesAccess } from "../access/kubeconfig.ts";
import { endpointUrl } from "../cluster/cluster-inputs.ts";
import type { MachineAddress, Machines } from "../engine/machines-port.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import { openKubernetes } from "../kubernetes/open-kubernetes.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { type JumpDeps, Jumps } from "./jumps.ts";
import { TalosMachines } from "./talos-machines.ts";

type Place = Pick<ClusterFolder, "cluster" | "machines">;

export interface WaysDeps extends JumpDeps {
  readonly clock: Clock;
}

interface Opened {
  readonly clock: Clock;
  readonly access: KubernetesAccess;
  readonly jumps: Jumps;
}

/** Longer than one run. */
const LIFETIME_HOURS = 24;

export class ClusterWays {
  readonly talos: TalosMachines;
  readonly kubernetes: Kubernetes;
  readonly #place: Place;
  readonly #clock: Clock;
  readonly #jumps: Jumps;
  #access: KubernetesAccess;

  private constructor(place: Place, secrets: SecretsBundle, deps: Opened) {
    const { clock, access, jumps } = deps;
    this.#place = place;
    this.#clock = clock;
    this.#access = access;
    this.#jumps = jumps;
    this.talos = new TalosMachines(secrets, clock.now(), (name) => jumps.dialOf(name));
    this.kubernetes = openKubernetes(() => this.#access, given({ dial: jumps.endpoint() }));
  }

  static async open(place: Place, secrets: SecretsBundle, deps: WaysDeps): Promise<ClusterWays> {
    const { clock } = deps;
    const access = await accessOf(place, secrets, clock);
    return new ClusterWays(place, secrets, { clock, access, jumps: await Jumps.open(place, deps) });
  }

  async use(secrets: SecretsBundle): Promise<void> {
    this.#access = await accessOf(this.#place, secrets, this.#clock);
    this.talos.use(secrets);
  }

  /** Throws unless everybody is reached with these secrets alone. */
  async prove(secrets: SecretsBundle): Promise<void> {
    const access = await accessOf(this.#place, secrets, this.#clock);
    const kubernetes = openKubernetes(access, given({ dial: this.#jumps.endpoint() }));
    try {
      const talos = new TalosMachines(secrets, this.#clock.now(), (name) => this.#jumps.dialOf(name));
      await proveReached(this.#place.machines.map(addressed), { talos, kubernetes, clock: this.#clock });
    } finally {
      kubernetes.close();
    }
  }

  async close(): Promise<void> {
    this.kubernetes.close();
    await this.#jumps.close();
  }
}

export interface ProofDeps {
  readonly talos: Machines;
  readonly kubernetes: Pick<Kubernetes, "nodes">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

const PROOF_MS = 300_000;
const PAUSE_MS = 2_000;
const ONE_MS = 10_000;

/** API servers and machines get their new certificates a moment after their configuration. */
export async function proveReached(
  machines: readonly MachineAddress[],
  { talos, kubernetes, clock }: ProofDeps,
): Promise<void> {
  const until = clock.monotonic() + PROOF_MS;
  const reached = async (what: string, ask: () => Promise<unknown>): Promise<void> => {
    for (;;) {
      try {
        await ask();
        return;
      } catch (err) {
        if (clock.monotonic() >= until) throw unproven(what, err);
        await clock.sleep(PAUSE_MS);
      }
    }
  };
  for (const machine of machines) {
    await reached(machine.name, async () => {
      const client = await talos.member(machine, ONE_MS);
      await client.version().finally(() => client.close());
    });
  }
  await reached("Kubernetes", () => kubernetes.nodes());
}

function unproven(what: string, cause: unknown): AppError {
  return new AppError(
    "operation.failed",
    `${what} is not reached with the new authorities alone: ${messageOf(cause)}`,
    {
      cause,
      data: { finding: "rotation-unproven", next: "The old ones are still accepted everywhere." },
    },
  );
}

const addressed = ({ name, addresses }: Place["machines"][number]): MachineAddress => ({
  name,
  address: addresses[0] ?? "",
});

function accessOf(
  { cluster, machines }: Place,
  secrets: SecretsBundle,
  clock: Clock,
): Promise<KubernetesAccess> {
  return createKubernetesAccess(secrets, {
    clusterName: cluster.metadata.name,
    endpoint: endpointUrl(cluster, machines),
    now: clock.now(),
    lifetimeHours: LIFETIME_HOURS,
  });
}
