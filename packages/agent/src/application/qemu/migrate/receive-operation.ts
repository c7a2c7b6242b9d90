// Taking a VM from another node: its QEMU waits here, its disks not yet opened for writing, until the store says that it
// is ours. Then it goes on. Whatever ends otherwise leaves nothing here.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { MoveServers } from "@gpve/domain/guest/move-servers.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import type { MoveKeys } from "@gpve/domain/guest/move-channel.ts";
import type { TakenRam } from "@gpve/domain/vm/migrate/direct-line.ts";
import type { WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { beginUrgentWork } from "@gpve/kit/urgent-work.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { vmStarter, type StartVmPorts } from "../start/start-vm.ts";
import { runningVm } from "../running-vm.ts";
import { RECEIVE_OPERATION, type Arrival, type Arrivals } from "./arrivals.ts";
import { awaitIncoming, endIncoming, goOnHere } from "./incoming.ts";
import { encryptRam, forgetKey } from "./encrypted-ram.ts";
import { OfferedConfigs } from "./offered-configs.ts";
import {
  freeMade,
  makeReceivedVolumes,
  receiveVolume,
  serveReceivedVolumes,
  withVolumes,
  type ReceiveVolumePorts,
} from "./received-volumes.ts";
import { untilAnswered } from "./whose-guest.ts";

export interface ReceivePorts extends StartVmPorts {
  readonly records: () => Records;
  readonly sha1Hex: (text: string) => string;
  /** False while a guest under HA may not run here. */
  readonly mayRun: (vmid: number) => boolean;
  readonly moves: { readonly servers: MoveServers; readonly keys?: MoveKeys };
  readonly isOfCopy: ReceiveVolumePorts["isOfCopy"];
}

export interface ReceiveArgs {
  readonly vmid: number;
  readonly moveId: string;
  readonly from: string;
}

interface ReceiveState {
  begun?: boolean;
  /** Made here for it. */
  volumes?: readonly string[];
  /** The guest stood still before. */
  isPaused?: boolean;
}

type Context = StepContext<ReceiveArgs, ReceiveState>;

/** Longer than it takes to be given the lease on guests under HA. */
const MAY_RUN_MS = 20_000;
const MAY_RUN_POLL_MS = 100;

export function receiveVmOperation(
  host: ReceivePorts,
  arrivals: Arrivals,
): OperationDefinition<ReceiveArgs, ReceiveState> {
  return {
    type: RECEIVE_OPERATION,
    lock: "migrate",
    onCrash: "resume",
    exclusive: true,
    steps: [
      {
        name: "receive",
        run: (ctx) => receive(host, arrivals, ctx),
        undo: (ctx) => dropArrival(host, ctx),
      },
    ],
  };
}

async function receive(host: ReceivePorts, arrivals: Arrivals, ctx: Context): Promise<void> {
  const { args, state, log } = ctx;
  const { vmid, moveId, from } = args;
  if (state.begun === true) return settle(host, ctx);
  const arrival = arrivals.find(moveId);
  if (arrival === undefined) throw conflict(`nobody offers VM ${vmid} any more`);
  if (host.configs.has(vmid)) throw conflict(`VM ${vmid} is on node '${host.configs.node}' already`);
  if (runningVm(host, vmid) !== undefined) throw conflict(`VM ${vmid} runs here already`);
  state.begun = true;
  state.isPaused = arrival.offer.isPaused === true;
  // A look at this host, which is good for a while, meanwhile.
  if (arrival.offer.isRunning)
    host.qemu.mayStart().catch((err: unknown) => ignore(err, "told when it is to start"));
  await ctx.checkpoint();
  log(`VM ${vmid} comes from node '${from}'`);
  const made = async (volid: string): Promise<void> => {
    state.volumes = [...(state.volumes ?? []), volid];
    await ctx.checkpoint();
  };
  const work = { signal: ctx.signal, log, made };
  arrival.volumes = await makeReceivedVolumes(host, vmid, arrival.offer, work);
  arrival.work = {
    receive: async (volid, source) =>
      (arrival.volumes[volid] ??= await receiveVolume(host, vmid, arrival.offer, volid, source, work)),
    start: (wanted, key) => startIncoming(host, ctx, arrival, wanted, key),
  };
  const ours = untilOurs(host, vmid, AbortSignal.any([ctx.signal, arrival.gone]));
  arrival.ready.resolve({ volumes: arrival.volumes });
  try {
    if (await ours) await takeOver(host, ctx);
    else await settle(host, ctx);
  } finally {
    arrival.isOver?.();
    arrival.isOver = () => undefined;
  }
}

async function startIncoming(
  host: ReceivePorts,
  ctx: Context,
  arrival: Arrival,
  wanted: WantedTransfer | undefined,
  key: string | undefined,
): Promise<TakenRam> {
  const { vmid } = ctx.args;
  const { offer, volumes } = arrival;
  // Until it runs here: it may stand still from now on.
  arrival.isOver ??= beginUrgentWork();
  const conf = withVolumes(offer.conf, volumes);
  const config = parseVmConfig(conf, { vmid, digestOf: host.sha1Hex });
  const { node } = host.configs;
  const deps = { node, records: host.records, sha1Hex: host.sha1Hex, clock: host.clock };
  // Sent once more: what came before is of no use.
  await endIncoming(host, vmid);
  await host.moves.keys?.remove(String(vmid));
  await untilMayRun(host, vmid, AbortSignal.any([ctx.signal, arrival.gone]));
  const configs = new OfferedConfigs(deps, vmid, config, offer.microvm);
  await vmStarter({ ...host, configs }).receive(
    { vmid, values: config.values, machine: offer.machine ?? "", cpu: offer.cpu },
    ctx,
  );
  const process = requireProcess(host, vmid);
  const live = offer.volumes.filter(({ isLive }) => isLive);
  const served = Object.fromEntries(live.map(({ key, volid }) => [key, volumes[volid] ?? ""]));
  await serveReceivedVolumes(host, process, served);
  const refused = key === undefined ? undefined : await takeEncrypted(host, process, key);
  const isEncrypted = key !== undefined && refused === undefined;
  const transfer = await awaitIncoming(process, wanted, ctx.signal, isEncrypted);
  return isEncrypted ? { isEncrypted } : given({ transfer, refused });
}

/** Why it does not, if it does not. */
async function takeEncrypted(
  { moves: { keys } }: ReceivePorts,
  process: QemuProcess,
  key: string,
): Promise<string | undefined> {
  if (keys === undefined) return "it has no place for keys";
  return encryptRam(keys, process, key, "server").then(
    () => undefined,
    (err: unknown) => messageOf(err),
  );
}

/** A guest under HA needs this node's lease, which it takes when one is on its way; without it, the start says why not. */
async function untilMayRun(host: ReceivePorts, vmid: number, signal: AbortSignal): Promise<void> {
  for (let waited = 0; waited < MAY_RUN_MS && !host.mayRun(vmid); waited += MAY_RUN_POLL_MS)
    await host.clock.sleep(MAY_RUN_POLL_MS, signal);
}

/** False when who offers it is gone, or the task was cancelled. */
function untilOurs(host: ReceivePorts, vmid: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (isOurs: boolean): void => {
      stop();
      signal.removeEventListener("abort", onAbort);
      resolve(isOurs);
    };
    const onAbort = (): void => end(false);
    const stop = host
      .records()
      .collection(guestCollection)
      .onChange((id, entry) => {
        if (id === String(vmid) && entry?.value.node === host.configs.node) end(true);
      });
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) end(false);
  });
}

/** Nobody speaks to us any more: a server says what became of it. */
async function settle(host: ReceivePorts, ctx: Context): Promise<void> {
  const owner = await askOwner(host, ctx);
  if (owner === host.configs.node) return takeOver(host, ctx);
  throw new AppError("operation.failed", `VM ${ctx.args.vmid} stays on node '${owner}'`, { pveStatus: 500 });
}

function askOwner(host: ReceivePorts, { args, log }: Context): Promise<string> {
  return untilAnswered({ ask: () => host.moves.servers.withdraw(args), clock: host.clock, log });
}

async function takeOver(host: ReceivePorts, ctx: Context): Promise<void> {
  const { vmid } = ctx.args;
  const process = runningVm(host, vmid);
  if (process === undefined) {
    ctx.log(`VM ${vmid} is on this node now`);
    return;
  }
  const served = (ctx.state.volumes ?? []).length > 0;
  await goOnHere(host, process, { served, isPaused: ctx.state.isPaused === true });
  ctx.log(`VM ${vmid} goes on here`);
  await forgetKey(host.moves.keys, process);
}

async function dropArrival(host: ReceivePorts, ctx: Context): Promise<void> {
  const { args, state, log } = ctx;
  if (state.begun !== true) return;
  if ((await askOwner(host, ctx)) === host.configs.node) return;
  await endIncoming(host, args.vmid);
  await host.moves.keys?.remove(String(args.vmid));
  await freeMade(host, state.volumes ?? [], log);
}

function requireProcess(host: ReceivePorts, vmid: number): QemuProcess {
  const process = runningVm(host, vmid);
  if (process === undefined) throw conflict(`the QEMU that waited for VM ${vmid} has ended`);
  return process;
}
