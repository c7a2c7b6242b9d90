// Machines that are not routed from here, by the platform's own lines to ports of its guests: a line of gpve's API each.
import { isIP } from "node:net";
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { MessageSocket } from "@gpve/client/transport.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { balancerOf } from "../cluster/balancer.ts";
import type { ClusterFolder } from "../folder/cluster-folder.ts";
import { LineStream } from "./line-stream.ts";
import type { Dial, DialPlace } from "./ssh-jump.ts";

type Place = Pick<ClusterFolder, "cluster" | "machines">;

const EXTENSION = "vm-tunnel";

export class PlatformJump {
  readonly #place: Place;
  readonly #provider: string;
  readonly #client: GpveClient;

  constructor(place: Place, provider: string, client: GpveClient) {
    this.#place = place;
    this.#provider = provider;
    this.#client = client;
  }

  /** That there are such lines is known before anything is done; who may have which, the platform says line by line. */
  async login(): Promise<void> {
    const { origin, v1 } = this.#client;
    const refuse = (why: string, cause?: unknown): AppError =>
      new AppError("node.unavailable", `cannot reach machines through ${origin}: ${why}`, {
        cause,
        data: { finding: "jump-refused", next: "Nothing was changed." },
      });
    const told = await v1.raw("GET", "").catch((cause: unknown) => {
      throw refuse(messageOf(cause), cause);
    });
    const extensions: unknown = isObject(told) ? told["extensions"] : undefined;
    const has = (Array.isArray(extensions) ? (extensions as unknown[]) : []).some(
      (each) => isObject(each) && each["name"] === EXTENSION,
    );
    if (!has)
      throw refuse(
        `it has no lines to guests (${EXTENSION}): it must be a gpve of this version; name a host for SSH instead`,
      );
  }

  /** `machine`: whose line it is; undefined = whoever has the address. */
  dialOf(machine: string | undefined): Dial {
    return (place) => new LineStream((signal) => this.#open(machine, place, signal));
  }

  async close(): Promise<void> {
    this.#client.close();
    await Promise.resolve();
  }

  async #open(
    machine: string | undefined,
    { host, port }: DialPlace,
    signal: AbortSignal,
  ): Promise<MessageSocket> {
    const guests = await this.#guestsAt(machine, host);
    // A name is the endpoint's: any control plane has its API.
    const options = { signal, ...given({ address: isIP(host) === 0 ? undefined : host }) };
    let refusal: Error | undefined;
    for (const vmid of guests) {
      try {
        return await this.#client.v1.openTunnel(vmid, port, options);
      } catch (err) {
        signal.throwIfAborted();
        // What the next one has, this one has not; a token that is refused is refused everywhere.
        if (isAppError(err) && err.kind === "unauthenticated") throw err;
        refusal ??= err as Error;
      }
    }
    throw refusal ?? new AppError("object.not_found", `no machine of the cluster is known to have ${host}`);
  }

  /** Who may have it, the likeliest first: a VIP is at one of the control planes, and moves. */
  async #guestsAt(machine: string | undefined, host: string): Promise<readonly number[]> {
    const { cluster, machines } = this.#place;
    const ours = machines.filter(({ provider }) => provider === this.#provider);
    if (machine !== undefined) {
      const known = ours.find(({ name }) => name === machine);
      return known === undefined ? this.#named(machine) : [known.vmid];
    }
    const balancer = balancerOf(cluster, machines);
    const all = balancer === undefined ? ours : [balancer, ...ours];
    const at = all.filter(({ addresses }) => addresses.includes(host));
    const chosen = at.length > 0 ? at : ours.filter(({ role }) => role === "controlplane");
    return chosen.map(({ vmid }) => vmid);
  }

  /** One that is no longer in the file. */
  async #named(machine: string): Promise<readonly number[]> {
    const rows = await this.#client.pve.list("/cluster/resources", { type: "vm" });
    return rows.filter(({ name }) => name === machine).map(({ vmid }) => Number(vmid));
  }
}
