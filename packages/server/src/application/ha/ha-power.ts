// Power of guests under HA: who starts or stops one tells HA what is wanted, in PVE's tasks `hastart`, `hastop` and
// `hamigrate`. Told to the node itself, HA would at once undo it.
import { askedBy } from "@gpve/domain/request/context.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import {
  managerCollection,
  MANAGER_STATUS_ID,
  vmidOfSid,
  type HaResource,
} from "@gpve/domain/ha/collections.ts";
import { readStartup } from "@gpve/domain/guest/startup-order.ts";
import type { AgentReply } from "@gpve/domain/node/agent-port.ts";
import { conflict, parameterError } from "@gpve/domain/request/failures.ts";
import { vmConfigOf } from "@gpve/domain/quota/guest-demand.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { requireValidCall } from "@gpve/domain/schema/validate-params.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Asking, Params, SentParams } from "../node/call-agent.ts";
import type { MovableGuests } from "../guest/movable-guests.ts";
import { requireNoReplication } from "../replication/replication-jobs.ts";
import type { HaConfig } from "./ha-config.ts";
import type { HaRules } from "./ha-rules.ts";

export interface HaPowerDeps {
  readonly records: Records;
  readonly config: HaConfig;
  readonly rules: Pick<HaRules, "effectsOf">;
  readonly movable: Pick<MovableGuests, "require" | "requireReady">;
  readonly engine: OperationEngine;
}

interface Wish {
  readonly sid: string;
  readonly text: string;
  readonly state?: "started" | "stopped";
  readonly command?: string;
}

interface Told {
  readonly type: string;
  readonly wish: Wish;
}

/** For each of several to shut down, where nobody says how long. */
const STOP_SECONDS = 180;

const ROUTE = /^POST \/nodes\/\{node\}\/(?:qemu|lxc)\/\{vmid\}\/(status\/(?:start|stop|shutdown)|migrate)$/;

const DESTROY = /^DELETE \/nodes\/\{node\}\/(?:qemu|lxc)\/\{vmid\}$/;
const SEVERAL = /^POST \/nodes\/\{node\}\/(startall|stopall)$/;
const LEAVE = /^POST \/nodes\/\{node\}\/(?:qemu|lxc)\/\{vmid\}\/remote_migrate$/;

/** One for each of PVE's task types. */
export function haPowerOperations(config: HaConfig): readonly OperationDefinition<Wish>[] {
  return ["hastart", "hastop", "hamigrate"].map((type) => ({
    type,
    onCrash: "resume",
    steps: [
      {
        name: "tell",
        run: async (ctx) => {
          const { sid, text, state, command } = ctx.args;
          ctx.log(text);
          const order = command === undefined ? undefined : { line: command, by: ctx.actor };
          if (state !== undefined)
            await config.setResource(sid, { state }, { remove: [], digest: undefined, order });
          else if (order !== undefined) await config.command(order.line, order.by);
        },
      },
    ],
  }));
}

export class HaPower {
  readonly #deps: HaPowerDeps;

  constructor(deps: HaPowerDeps) {
    this.#deps = deps;
  }

  /** Answers in the node's place where the guest is under HA; the call was judged before. */
  async divert(
    route: string,
    { params: sent, source }: SentParams,
    ctx: Asking,
  ): Promise<AgentReply | undefined> {
    const several = SEVERAL.exec(route)?.[1];
    if (several !== undefined) await this.#tellNamed(several, requireValidCall(route, sent, source), ctx);
    const verb = ROUTE.exec(route)?.[1];
    const [destroys, leaves] = [DESTROY.test(route), LEAVE.test(route)];
    if (verb === undefined && !destroys && !leaves) return undefined;
    const guest = this.#guest(Number(sent["vmid"]));
    if (guest === undefined) return undefined;
    const resource = this.#deps.config.find(guest);
    if (resource === undefined && !destroys) return undefined;
    // As its node would read them: a form says "1" and means true.
    const { compression: _ours, ...asked } = sent;
    const params = requireValidCall(route, asked, source);
    if (destroys && params["purge"] !== true) {
      if (resource !== undefined) throw needsPurge(resource);
      requireNoReplication(this.#deps.records, guest.vmid);
    }
    if (resource === undefined) return undefined;
    // It ends stopped and locked here: HA would start it again, or elsewhere, while it runs in the other cluster.
    if (leaves && resource.state !== "ignored")
      throw parameterError({ vmid: "cannot migrate HA-managed VM to remote cluster" });
    if (verb === undefined || params["skiplock"] === true || this.#isLeftAlone(resource)) return undefined;
    return { data: await this.#submit(this.#wish(verb, resource, params), ctx, ctx.requestId) };
  }

  async #submit({ type, wish }: Told, ctx: Asking, requestId: string): Promise<string> {
    const { upid } = await this.#deps.engine.submit({
      type,
      resources: [`ha/${wish.sid}`],
      args: wish,
      subject: String(vmidOfSid(wish.sid)),
      ...askedBy(ctx),
      requestId,
    });
    return upid;
  }

  /** Of guests of a node that are named for start or stop: the node does so with the others, and leaves out those under HA. */
  async #tellNamed(several: string, { node, vms, timeout }: Params, ctx: Asking): Promise<void> {
    const vmids = typeof vms === "string" ? splitList(vms).map(Number) : [];
    // As the node will for all of them, before it begins with one.
    for (const vmid of vmids) ctx.access.require(`/vms/${vmid}`, ["VM.PowerMgmt"]);
    for (const vmid of vmids) {
      const guest = this.#guest(vmid);
      if (guest === undefined || guest.node !== node) continue;
      const resource = this.#deps.config.find(guest);
      if (resource === undefined || this.#isLeftAlone(resource)) continue;
      const { down } = readStartup(vmConfigOf(guest).values["startup"] ?? "");
      const seconds = { timeout: down ?? timeout ?? STOP_SECONDS };
      const verb = several === "startall" ? "status/start" : "status/shutdown";
      await this.#submit(this.#wish(verb, resource, seconds), ctx, `${ctx.requestId}/${vmid}`);
    }
  }

  /** The manager would only log it. */
  #requireAllowed(sid: string, target: string): void {
    const { blocking, closed } = this.#deps.rules.effectsOf(sid, target);
    if (closed !== undefined) throw conflict(`cannot migrate resource '${sid}': ${closed}`);
    if (blocking.length === 0) return;
    const why = blocking.map((each) =>
      each.cause === "node-affinity"
        ? `a strict node affinity rule of '${each.sid}' does not name it`
        : `resource '${each.sid}' there is in negative affinity with it`,
    );
    throw conflict(`cannot migrate resource '${sid}' to node '${target}': ${why.join("; ")}`);
  }

  /** One that is ignored, or that HA ignores while it is disarmed so, is the operator's. */
  #isLeftAlone({ state }: HaResource): boolean {
    const { disarm } = this.#deps.records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value ?? {};
    return state === "ignored" || disarm?.mode === "ignore";
  }

  #guest(vmid: number): GuestRecord | undefined {
    return this.#deps.records.collection(guestCollection).get(String(vmid))?.value;
  }

  #wish(verb: string, { sid }: HaResource, params: Params): Told {
    if (verb === "migrate") {
      const target = String(params["target"]);
      const text = `Requesting HA migration for ${sid} to node ${target}`;
      const { movable, config } = this.#deps;
      const vmid = vmidOfSid(sid);
      // The manager would only log it, and the task say that it went well.
      movable.requireReady(vmid, target, params["online"] === true);
      config.requireArmed(sid);
      this.#requireAllowed(sid, target);
      movable.require(vmid, target);
      return { type: "hamigrate", wish: { sid, text, command: `migrate ${sid} ${target}` } };
    }
    if (verb === "status/start")
      return { type: "hastart", wish: { sid, state: "started", text: `Requesting HA start for ${sid}` } };
    const timeout = verb === "status/stop" ? 0 : Number(params["timeout"] ?? 60);
    const text = `Requesting HA stop for ${sid}`;
    return { type: "hastop", wish: { sid, state: "stopped", text, command: `stop ${sid} ${timeout}` } };
  }
}

/** PVE's text. What HA knows of it goes when it is gone (`removeGuestFromHa`): one that cannot be deleted keeps it. */
function needsPurge({ sid }: HaResource): Error {
  const vmid = vmidOfSid(sid);
  return conflict(`unable to remove VM ${vmid} - used in HA resources and purge parameter not set.`);
}
