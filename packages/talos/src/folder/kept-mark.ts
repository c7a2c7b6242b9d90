// The mark of whoever is at work, kept for as long as he is: on the first control plane that is there, and on another when
// that one goes. Whoever comes looks at all of them.
import { type AppError, isAppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Driver, GuestPlace } from "../driver/driver.ts";
import { isOurs, readGuests } from "../preflight/check-guests.ts";
import { clusterTag } from "../preflight/preflight.ts";
import { type MarkRequest, OperatorMark, refuseMarked } from "./lease.ts";

export interface KeptMarkRequest extends Pick<MarkRequest, "holder" | "isGone" | "now" | "takeOver"> {
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  readonly drivers: ReadonlyMap<string, Driver>;
  /** How often it is looked after, whatever else goes on. */
  readonly everyMs?: number;
}

const EVERY_MS = 20_000;

export class KeptMark {
  readonly #request: KeptMarkRequest;
  readonly #taken = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #mark: OperatorMark | undefined;
  #work: Promise<void> = Promise.resolve();

  private constructor(request: KeptMarkRequest, mark: OperatorMark | undefined) {
    this.#request = request;
    this.#mark = mark;
    this.#timer = setInterval(() => this.#then(() => this.#renew()), request.everyMs ?? EVERY_MS);
    this.#timer.unref();
  }

  /** Fails (resource.busy) while somebody else's is fresh. */
  static async take(request: KeptMarkRequest): Promise<KeptMark> {
    return new KeptMark(request, await takeFirst(request, () => true));
  }

  /** Aborted when somebody else took over: nothing more may be begun. */
  get signal(): AbortSignal {
    return this.#taken.signal;
  }

  /** After every step: where there is no mark, a control plane may be there now that can have it. */
  look(): void {
    this.#then(async () => {
      await this.#renew();
      // One that does not run is being made or changed, and nobody may be in between. Who took over once does not again.
      const request = { ...this.#request, takeOver: false };
      this.#mark ??= await takeFirst(request, ({ isRunning }) => isRunning);
    });
  }

  async release(): Promise<void> {
    clearInterval(this.#timer);
    await this.#work;
    await this.#mark
      ?.release()
      .catch((err: unknown) => ignore(err, "a mark is void after a while by itself"));
  }

  #then(work: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      if (this.signal.aborted) return;
      try {
        await work();
      } catch (err) {
        if (isOperatorBusy(err)) this.#taken.abort(err);
        else ignore(err, "the platform is away for a moment; a mark lasts longer");
      }
    });
  }

  async #renew(): Promise<void> {
    try {
      await this.#mark?.renew();
    } catch (err) {
      if (!isAppError(err, "object.not_found")) throw err;
      this.#mark = undefined;
    }
  }
}

const isOperatorBusy = (err: unknown): err is AppError =>
  isAppError(err, "resource.busy") && err.data["finding"] === "operator-busy";

/** undefined: there is no control plane yet. */
async function takeFirst(
  request: KeptMarkRequest,
  mayBeMarked: (guest: MarkedGuest) => boolean,
): Promise<OperatorMark | undefined> {
  const planes = await planesThere(request);
  for (const { description } of planes) refuseMarked(description, request);
  const first = planes.find(mayBeMarked);
  if (first === undefined) return undefined;
  return OperatorMark.take({ ...request, driver: first.driver, place: first.place });
}

interface MarkedGuest {
  readonly driver: Driver;
  readonly place: GuestPlace;
  readonly isRunning: boolean;
  readonly description: string;
}

/** In the file's order; those on nodes that are away cannot be marked. */
async function planesThere(request: KeptMarkRequest): Promise<readonly MarkedGuest[]> {
  const { cluster, machines, drivers } = request;
  const tag = clusterTag(cluster);
  const planes = machines.filter(({ role }) => role === "controlplane");
  const found = await Promise.all(
    [...new Set(planes.map(({ provider }) => provider))].map(async (provider) => {
      const driver = drivers.get(provider);
      if (driver === undefined) return [];
      const own = planes.filter((plane) => plane.provider === provider);
      const names = cluster.providers.find(({ name }) => name === provider)?.nodes ?? [];
      const { guests, nodes } = await driver.observe(names);
      const asked = guests.filter(
        ({ vmid, tags }) => tags.includes(tag) && own.some((plane) => plane.vmid === vmid),
      );
      const known = await readGuests(driver, { guests: asked, nodes }, tag);
      return own.flatMap((plane) =>
        known
          .filter((each) => each.unread === undefined && isOurs(each, plane, tag))
          .map(({ guest: { host, vmid, isRunning }, config: { description = "" } }) => ({
            driver,
            place: { host, vmid },
            isRunning,
            description,
            plane,
          })),
      );
    }),
  );
  return found.flat().toSorted((a, b) => planes.indexOf(a.plane) - planes.indexOf(b.plane));
}
