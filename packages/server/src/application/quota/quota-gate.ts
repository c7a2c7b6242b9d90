// Stands before every call to a node: what a request will take is worked out and promised before the node is told, and
// given back when nothing comes of it.
import { checkSpan, childSpan } from "@gpve/kit/telemetry/span.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { AgentRoute } from "@gpve/contracts/agent/agent-routes.ts";
import type { AgentCall, AgentReply } from "@gpve/domain/node/agent-port.ts";
import { NO_ANSWERS, type Answers, type Effect, type Unknowns } from "@gpve/domain/quota/effects.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import { vmConfigOf } from "@gpve/domain/quota/guest-demand.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { vmEffects, type KnownVm, type JudgedRequest } from "@gpve/domain/vm/effects/vm-effects.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { isRefusal } from "../node/is-refusal.ts";
import type { QuotaLedger } from "./quota-ledger.ts";
import type { QuotaView } from "./quota-view.ts";

export interface QuotaGateDeps {
  readonly ledger: QuotaLedger;
  readonly view: QuotaView;
  readonly clock: Pick<Clock, "now">;
  readonly by: string;
  readonly log: Logger;
}

export interface GatedCall {
  readonly route: string;
  readonly params: AgentCall["params"];
  readonly source: "form" | "json";
  readonly requestId: string;
  /** Set for what nobody asked for in a request. */
  readonly work?: string | undefined;
  /** Whether the caller has a privilege on a guest. */
  readonly may: (vmid: number, privilege: string) => boolean;
}

/** Asks the node that is called something on behalf of whoever calls it. */
export type AskNode = (route: AgentRoute, params: Readonly<Record<string, unknown>>) => Promise<unknown>;

const CREATE_ROUTE = "POST /nodes/{node}/qemu";
const VZDUMP_ROUTE = "POST /nodes/{node}/vzdump";
const VM_BACKUP_ROUTE = "POST /gpve/nodes/{node}/vms/{vmid}/backup" satisfies AgentRoute;
const VC_BACKUP_ROUTE = "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup" satisfies AgentRoute;
const NEW_VM_ROUTE = "POST /gpve/nodes/{node}/virtual-machines" satisfies AgentRoute;

/** No id that a guest could have. */
const NO_GUEST = -2_000_000_000;

export class QuotaGate {
  readonly #deps: QuotaGateDeps;

  constructor(deps: QuotaGateDeps) {
    this.#deps = deps;
  }

  /** `send` calls the node; it is not called when there is no room. */
  async pass(call: GatedCall, ask: AskNode, send: () => Promise<AgentReply>): Promise<AgentReply> {
    const promised = this.#isAbout(call) ? await childSpan("quota", {}, () => this.#promise(call, ask)) : [];
    if (promised.length === 0) return send();
    const { ledger } = this.#deps;
    let reply: AgentReply;
    try {
      reply = await send();
    } catch (err) {
      await this.#afterwards(isRefusal(err) ? ledger.giveBack(promised) : ledger.lost(promised));
      throw err;
    }
    const { data } = reply;
    const isTask = typeof data === "string" && data.startsWith("UPID:");
    await this.#afterwards(isTask ? ledger.begun(promised, data) : ledger.giveBack(promised));
    return reply;
  }

  /** The answer of PVE's own method to what is not a request at all is the node's to give. */
  #isAbout({ route, work }: GatedCall): boolean {
    // A job is made by who is above all tenants: what it makes is counted, and one that is full keeps no other from it.
    if (work === "backup-job") return false;
    const isKnown = route === VC_BACKUP_ROUTE || vmEffects[pveRoute(route)] !== undefined;
    return isKnown && this.#deps.view.quotas().length > 0;
  }

  async #promise(call: GatedCall, ask: AskNode): Promise<readonly string[]> {
    const { route, params, requestId } = call;
    const { ledger, clock, by } = this.#deps;
    const { effects, valid } = await this.#effects(call, ask);
    if (!ledger.isBounded(effects)) return [];
    // A task about several is about none.
    const about = Number(valid["vmid"] ?? 0) || 0;
    const origin = { requestId, route, node: String(params["node"]), about, at: clock.now(), by };
    const what =
      route === VC_BACKUP_ROUTE
        ? `back up virtual cluster ${String(params["vcluster"])}`
        : describe(route, effects);
    return ledger.reserve({ what, effects, origin });
  }

  async #effects(
    call: GatedCall,
    ask: AskNode,
  ): Promise<{ readonly effects: readonly Effect[]; readonly valid: Readonly<Record<string, unknown>> }> {
    const { view } = this.#deps;
    if (call.route === VC_BACKUP_ROUTE) return { effects: [oneMoreBackup(call.params)], valid: {} };
    const route = pveRoute(call.route);
    const valid = checkSpan("validate", () => validParams(call, route));
    const request: JudgedRequest = {
      params: valid,
      vm: (vmid) => knownVm(view.guest(vmid)),
      ofNode: () => view.guestsOf(String(valid["node"])).flatMap((guest) => knownVm(guest) ?? []),
      inPool: (pool) => view.poolMembers(pool),
      may: call.may,
    };
    const row = vmEffects[route];
    if (row === undefined) return { effects: [], valid };
    const first = row.effects(request, NO_ANSWERS);
    const unknowns = row.unknowns?.(request);
    // Only where somebody is bounded is a node asked before it is told.
    const isAsked = unknowns !== undefined && (unknowns.volumes.length > 0 || unknowns.archive !== undefined);
    if (!isAsked || !this.#mayBeBounded(first, valid)) return { effects: first, valid };
    return { effects: row.effects(request, await answersOf(unknowns, ask)), valid };
  }

  #mayBeBounded(effects: readonly Effect[], valid: Readonly<Record<string, unknown>>): boolean {
    const { view, ledger } = this.#deps;
    const guest = view.guest(Number(valid["vmid"]));
    const pools = [valid["pool"], guest === undefined ? undefined : view.poolOf(guest)];
    const isNamed = pools.some((pool) => typeof pool === "string" && view.quotasOn(pool).length > 0);
    return isNamed || ledger.isBounded(effects);
  }

  /** The node has done its part by then: whoever asked hears of that, and the keeper does this later. */
  async #afterwards(work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (err) {
      this.#deps.log.warn({ err: messageOf(err) }, "a quota reservation could not be updated");
    }
  }
}

/** What makes VMs for /api/v1 takes what PVE's method takes. */
function pveRoute(route: string): string {
  if (route === VM_BACKUP_ROUTE) return VZDUMP_ROUTE;
  return route === NEW_VM_ROUTE ? CREATE_ROUTE : route;
}

/** Of a virtual cluster: until its node has counted it, it is what a guest would be that is nothing but a backup. */
function oneMoreBackup({ tenant }: GatedCall["params"]): Effect {
  const isNew = { pool: String(tenant) };
  return { vmid: NO_GUEST, type: VM_TYPE, isNew, demand: { backups: 1 }, tags: [] };
}

/** As the node will read them. */
function validParams(
  { route, params, source }: Pick<GatedCall, "route" | "params" | "source">,
  key: string,
): Readonly<Record<string, unknown>> {
  const method = methodByKey(key);
  if (method === undefined) throw new AppError("internal.error", `${key} is no method of PVE`);
  if (route === VM_BACKUP_ROUTE) return { node: params["node"], vmid: String(params["vmid"]) };
  if (route !== NEW_VM_ROUTE) return requireValidParams(method, params, { source });
  const { node, vmid, pool, config, running } = params;
  const keys = typeof config === "object" && config !== null ? config : {};
  const { pool: _named, ...own } = keys as Readonly<Record<string, unknown>>;
  const asked = { ...own, node, vmid: String(vmid), ...given({ pool }) };
  return { ...requireValidParams(method, asked, { source: "form" }), start: running === true };
}

async function answersOf({ volumes, archive }: Unknowns, ask: AskNode): Promise<Answers> {
  const sizes: Record<string, number> = {};
  for (const volid of volumes) {
    const storage = parseVolumeId(volid)?.storage;
    if (storage === undefined) continue;
    const facts = await ask("GET /nodes/{node}/storage/{storage}/content/{volume}", {
      storage,
      volume: volid,
    });
    const { size } = (facts ?? {}) as { readonly size?: unknown };
    if (typeof size === "number") sizes[volid] = size;
  }
  if (archive === undefined) return { sizes };
  return {
    sizes,
    archived: String(await ask("GET /nodes/{node}/vzdump/extractconfig", { volume: archive })),
  };
}

function knownVm(guest: GuestRecord | undefined): KnownVm | undefined {
  if (guest?.type !== VM_TYPE) return undefined;
  return { vmid: guest.vmid, config: vmConfigOf(guest), sizes: guest.sizes ?? {}, backups: guest.backups };
}

function describe(route: string, effects: readonly Effect[]): string {
  const vms = effects.map(({ vmid }) => `VM ${vmid}`).join(", ");
  const verb = VERBS.find(([pattern]) => pattern.test(route))?.[1] ?? "change";
  return `${verb} ${vms}`;
}

const VERBS: readonly (readonly [RegExp, string])[] = [
  [/\/clone$/, "make the clone"],
  [/\/(?:qemu|virtual-machines)$/, "create"],
  [/\/resize$/, "resize a disk of"],
  [/\/move_disk$/, "move a disk of"],
  [/\/snapshot$/, "take a snapshot of"],
  [/\/rollback$/, "roll back"],
  [/\/suspend$/, "suspend"],
  [/\/(?:vzdump|backup)$/, "back up"],
  [/\/(?:start|resume|startall)$/, "start"],
];
