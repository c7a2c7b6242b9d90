// A place for a guest that shall be made, asked for by either face.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { newCtRequest, newVmRequest } from "@gpve/domain/scheduler/guest-request.ts";
import type { PlacementRequest, SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { placementsDef, type PlacementRecord } from "./placement-records.ts";
import type { Placed, Placer } from "./placer.ts";

/** In place of a node's name. */
export const AUTO = "auto";

export interface NewGuest {
  readonly kind: "vm" | "ct";
  readonly vmid: number;
  /** Keys of its configuration, as the request names them. */
  readonly keys: Readonly<Record<string, string>>;
  readonly tenant?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly rules?: SchedulingRules | undefined;
  readonly starts: boolean;
}

/** Making disks may take that long. */
const KEPT_MS = 15 * 60_000;

/** Places that one user may hold for guests that are not there yet: more would keep others from theirs. */
const MOST_KEPT = 50;

export interface PlaceGuestDeps {
  readonly placer: Pick<Placer, "place" | "release">;
  readonly records: Pick<Records, "collection">;
  readonly clock: Pick<Clock, "now">;
}

export class PlaceGuest {
  readonly #deps: PlaceGuestDeps;

  constructor(deps: PlaceGuestDeps) {
    this.#deps = deps;
  }

  /** Runs `make` with the node that was found; its place is given back when nothing comes of it. */
  async run<T>(
    guest: NewGuest,
    ctx: Pick<RequestContext, "actor" | "access" | "signal">,
    make: (placed: Placed) => Promise<T>,
  ): Promise<T> {
    const placed = await this.reserve(guest, ctx);
    try {
      return await make(placed);
    } catch (err) {
      await this.#deps.placer.release([placed.id]);
      throw err;
    }
  }

  /** For who is about to make it himself, and may. As PVE asks for it where guests are made. */
  async keep(guest: NewGuest, ctx: Pick<RequestContext, "actor" | "access" | "signal">): Promise<Placed> {
    const { vmid, tenant } = guest;
    const mayInPool = tenant !== undefined && ctx.access.has(`/pool/${tenant}`, ["VM.Allocate"]);
    if (!mayInPool) ctx.access.require(`/vms/${vmid}`, ["VM.Allocate"]);
    return this.reserve(guest, ctx);
  }

  /** Its place is kept for a while. */
  async reserve(guest: NewGuest, ctx: Pick<RequestContext, "actor" | "access" | "signal">): Promise<Placed> {
    const request = requestOf(guest);
    const by = ctx.actor?.authid ?? "";
    this.#requireFree(guest, request.id, by);
    return this.#deps.placer.place(request, {
      by,
      starts: guest.starts,
      keptMs: KEPT_MS,
      signal: ctx.signal,
      maySeeNodes: ctx.access.has("/nodes", ["Sys.Audit"]),
    });
  }

  /** What is known of another's place is not for whoever says its number. */
  #requireFree({ vmid }: NewGuest, id: string, by: string): void {
    const { records, clock } = this.#deps;
    const there = records.collection(guestCollection).get(String(vmid))?.value;
    if (there !== undefined)
      throw new AppError(
        "object.exists",
        `unable to create guest ${vmid}: it exists on node '${there.node}'`,
      );
    const kept = records
      .collection(placementsDef)
      .list()
      .filter(({ value }) => value.until !== undefined && value.until > clock.now());
    const held = kept.find(({ value }) => value.request.id === id)?.value;
    if (held !== undefined && userOf(held.by) !== userOf(by))
      throw new AppError(
        "object.conflict",
        `a place for guest ${vmid} is held for somebody else: take another id`,
      );
    const own = kept.filter(
      ({ value }) => userOf(value.by) === userOf(by) && value.request.id !== id && this.#isAwaited(value),
    );
    if (own.length >= MOST_KEPT)
      throw new AppError(
        "resource.busy",
        `${by} holds ${own.length} places for guests that are not there yet: make those first, or wait until they lapse`,
      );
  }

  #isAwaited({ request }: PlacementRecord): boolean {
    const vmid = request.id.split("/")[1] ?? "";
    return this.#deps.records.collection(guestCollection).get(vmid) === undefined;
  }
}

/** Tokens are their user's, who may make as many as he likes. */
function userOf(authid: string): string {
  return authid.split("!", 1)[0] ?? authid;
}

export function requestOf(guest: NewGuest): PlacementRequest {
  const { kind, vmid, keys, tenant, labels, rules } = guest;
  if (keys["archive"] !== undefined)
    throw new AppError(
      "feature.unsupported",
      "what a backup holds is known only when it is read: say which node shall restore it",
    );
  const context = { tenant, labels, rules };
  return kind === "vm"
    ? newVmRequest(vmid, keys, context)
    : newCtRequest(vmid, new Map(Object.entries(keys)), context);
}
