// Taking a running VM from another cluster. It was made here before, with disks that are empty still; its QEMU waits for what
// is sent. Whether it goes on here is decided once, by the word of whoever sends it, and noted before it does: this task ends
// well if and only if it went on. Else nothing of it stays here.
import type { OwnHandlers } from "../../agent.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { checkLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { RemoteOffer } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { vmStarter, type StartVmPorts } from "../start/start-vm.ts";
import { runningVm } from "../running-vm.ts";
import { vmKey } from "../request/vm-tasks.ts";
import { awaitIncoming, endIncoming, goOnHere } from "../migrate/incoming.ts";
import { serveReceivedVolumes } from "../migrate/received-volumes.ts";
import { ARRIVE_OPERATION, type RemoteArrivals } from "./remote-arrivals.ts";

export interface ArriveArgs {
  readonly vmid: number;
  readonly session: string;
}

interface ArriveState {
  /** It is this VM that was made for the move: when that fails it goes. */
  begun?: boolean;
  isPaused?: boolean;
  /** From here on it is this cluster's. */
  committed?: boolean;
}

type Context = StepContext<ArriveArgs, ArriveState>;

export class RemoteReceiver {
  readonly #host: StartVmPorts;
  readonly #engine: OperationEngine;
  readonly #arrivals: RemoteArrivals;

  constructor(host: StartVmPorts, engine: OperationEngine, arrivals: RemoteArrivals) {
    this.#host = host;
    this.#engine = engine;
    this.#arrivals = arrivals;
  }

  routes(): OwnHandlers<"POST /gpve/nodes/{node}/vms/{vmid}/mtunnel"> {
    return {
      "POST /gpve/nodes/{node}/vms/{vmid}/mtunnel": async ({ vmid, storages, bridges }, ctx) => {
        for (const storage of listOf(storages))
          ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
        for (const bridge of listOf(bridges))
          ctx.access.require(`/sdn/zones/localnetwork/${bridge}`, ["SDN.Use"]);
        const config = this.#host.configs.get(vmid);
        checkLock(config);
        if (isTemplate(config) || runningVm(this.#host, vmid) !== undefined)
          throw conflict(`VM ${vmid} runs here, or is a template: nothing can come in its place`);
        this.#arrivals.requireJustMade(vmid, config.values);
        return this.#arrivals.offer(vmid, ctx.actor?.authid ?? "");
      },
    };
  }

  operation(): OperationDefinition<ArriveArgs, ArriveState> {
    return {
      type: ARRIVE_OPERATION,
      lock: "migrate",
      onCrash: "resume",
      exclusive: true,
      steps: [{ name: "arrive", run: (ctx) => this.#arrive(ctx), undo: (ctx) => this.#dropArrival(ctx) }],
    };
  }

  async #arrive(ctx: Context): Promise<void> {
    const { args, state, log } = ctx;
    if (state.committed === true) return this.#goOn(ctx);
    const arrival = this.#arrivals.find(args.session);
    if (state.begun === true || arrival === undefined)
      throw conflict("the agent was started again meanwhile: the VM stays in its cluster");
    if (runningVm(this.#host, args.vmid) !== undefined) throw conflict(`VM ${args.vmid} runs here already`);
    state.begun = true;
    await ctx.checkpoint();
    log(`VM ${args.vmid} comes from another cluster`);
    const done = Promise.withResolvers<void>();
    arrival.work.resolve({
      start: (offer) => this.#start(ctx, offer),
      commit: async () => {
        // Whoever gave up first has decided it.
        signal.throwIfAborted();
        try {
          state.committed = true;
          await ctx.checkpoint();
        } catch (err) {
          state.committed = false;
          done.reject(err);
          throw err;
        }
        // It is this cluster's now, whatever comes: the task must not say otherwise.
        await this.#goOn(ctx).catch((err: unknown) =>
          ctx.warn(`VM ${args.vmid} stands still: ${messageOf(err)}`),
        );
        done.resolve();
      },
    });
    const signal = AbortSignal.any([ctx.signal, arrival.gone.signal]);
    const giveUp = (): void => {
      if (state.committed !== true) done.reject(signal.reason);
    };
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    await done.promise;
  }

  async #start(ctx: Context, offer: RemoteOffer): Promise<void> {
    const { vmid } = ctx.args;
    const { values } = await this.#host.configs.change(vmid, (config) => {
      const { vmgenid: _own, ...rest } = config.values;
      return { ...config, values: { ...rest, ...given({ vmgenid: offer.vmgenid }) } };
    });
    const files = new Map(listDrives(values).map(({ key, drive }) => [key, drive.file]));
    const unknown = offer.disks.find((key) => !files.has(key));
    if (unknown !== undefined) throw conflict(`VM ${vmid} has no ${unknown} here`);
    ctx.state.isPaused = offer.isPaused;
    await endIncoming(this.#host, vmid);
    await vmStarter(this.#host).receive(
      { vmid, values, machine: offer.machine ?? "", ...given({ cpu: offer.cpu }) },
      ctx,
    );
    const process = runningVm(this.#host, vmid);
    if (process === undefined) throw conflict(`the QEMU that waited for VM ${vmid} has ended`);
    const own = Object.fromEntries(offer.disks.map((key) => [key, files.get(key) ?? ""]));
    await serveReceivedVolumes(this.#host, process, own);
    await awaitIncoming(process, undefined, ctx.signal);
    ctx.log("its QEMU waits");
  }

  async #goOn(ctx: Context): Promise<void> {
    const process = runningVm(this.#host, ctx.args.vmid);
    // It may have come, gone on and ended before the agent did.
    if (process !== undefined)
      await goOnHere(this.#host, process, { served: true, isPaused: ctx.state.isPaused === true });
    ctx.log(`VM ${ctx.args.vmid} goes on here`);
  }

  async #dropArrival({ args, state, actor, log }: Context): Promise<void> {
    const { vmid } = args;
    if (state.begun !== true || state.committed === true) return;
    await endIncoming(this.#host, vmid);
    log(`VM ${vmid}, which was made for the move, goes again`);
    await this.#engine.submit({
      type: "qmdestroy",
      resources: [vmKey(vmid)],
      args: { vmid, destroyUnreferenced: false, skiplock: false, storages: [] },
      actor,
      subject: String(vmid),
    });
  }
}

function listOf(text: string | undefined): readonly string[] {
  return (text ?? "").split(/[,;\s]+/).filter((each) => each !== "");
}
