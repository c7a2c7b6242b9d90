// One thing done with many VMs, wherever they are: of a node (`migrateall`) or of the cluster (`bulk…`). Each is asked of the
// VM's node as if it had been asked for alone, with the rights that whoever asked has then: its checks, HA and quotas hold.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AgentRoute } from "@gpve/contracts/agent/agent-routes.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { missing } from "@gpve/domain/request/failures.ts";
import { startOrder, stopOrder } from "@gpve/domain/guest/startup-order.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { vmConfigOf } from "@gpve/domain/quota/guest-demand.ts";
import { actorOf, type AccessView, type Actor } from "@gpve/domain/request/context.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { untilTaskEnd } from "../node/until-task-end.ts";
import { taskEnd } from "../task/task-end.ts";

export type AtOnceVerb = "migrate" | "start" | "shutdown" | "suspend";

export interface AtOnceArgs {
  readonly verb: AtOnceVerb;
  /** Only those of this node. */
  readonly node?: string;
  /** Absent = all that the verb can be meant for. */
  readonly vmids?: readonly number[];
  /** How many at the same time. */
  readonly workers: number;
  /** For the one of each VM. */
  readonly params: Readonly<Record<string, unknown>>;
  /** Those that run are moved as they run, also where nobody said so. */
  readonly onlineIfRunning?: boolean;
}

interface AtOnceState extends Record<string, unknown> {
  /** By VM: the task that was begun for it. */
  tasks?: Record<string, string>;
}

export interface AtOnceDeps {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "get">;
  readonly calls: Pick<NodeCalls, "call">;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  readonly newRequestId: () => string;
}

/** Also PVE's worker types. */
export const AT_ONCE_TYPES = [
  "migrateall",
  "bulkmigrate",
  "bulkstart",
  "bulkshutdown",
  "bulksuspend",
] as const;

export type AtOnceType = (typeof AT_ONCE_TYPES)[number];

const VERBS = {
  migrate: { route: "POST /nodes/{node}/qemu/{vmid}/migrate", says: "Migrating" },
  start: { route: "POST /nodes/{node}/qemu/{vmid}/status/start", says: "Starting" },
  shutdown: { route: "POST /nodes/{node}/qemu/{vmid}/status/shutdown", says: "Stopping" },
  suspend: { route: "POST /nodes/{node}/qemu/{vmid}/status/suspend", says: "Suspending" },
} as const satisfies Record<AtOnceVerb, { readonly route: AgentRoute; readonly says: string }>;

export function atOnceOperations(deps: AtOnceDeps): readonly OperationDefinition<AtOnceArgs, AtOnceState>[] {
  return AT_ONCE_TYPES.map((type) => ({
    type,
    onCrash: "resume",
    // It waits for tasks elsewhere, and what HA is told is done by this very engine.
    idle: true,
    steps: [{ name: "all", run: (ctx) => doAll(deps, ctx) }],
  }));
}

async function doAll(deps: AtOnceDeps, ctx: StepContext<AtOnceArgs, AtOnceState>): Promise<void> {
  const { vmids, workers } = ctx.args;
  const guests = meant(deps, ctx.args);
  const begun = (ctx.state.tasks ??= {});
  for (const vmid of vmids ?? [])
    if (!guests.some((guest) => guest.vmid === vmid) && begun[vmid] === undefined)
      ctx.warn(`VM ${vmid}: ${whyNot(deps, ctx.args, vmid)}`);
  // A server that takes over waits for what was begun before it.
  const left = [
    ...Object.keys(begun).map(Number),
    ...guests.map(({ vmid }) => vmid).filter((vmid) => begun[vmid] === undefined),
  ];
  if (left.length === 0) ctx.log("no virtual guests matched, nothing to do..");
  const total = left.length;
  let done = 0;
  const work = async (): Promise<void> => {
    for (let vmid = left.shift(); vmid !== undefined; vmid = left.shift()) {
      await doOne(deps, ctx, vmid, begun);
      ctx.progress(++done / total);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
}

/** One that fails does not keep the others from their turn. */
async function doOne(
  deps: AtOnceDeps,
  ctx: StepContext<AtOnceArgs, AtOnceState>,
  vmid: number,
  begun: Record<string, string>,
): Promise<void> {
  const { records, board } = deps;
  const { signal } = ctx;
  signal.throwIfAborted();
  try {
    const task = (begun[vmid] ??= await begin(deps, ctx, vmid));
    await ctx.checkpoint();
    const { node = "", pid = 0 } = taskFromUpid(task) ?? {};
    const end = (upid: string, until: AbortSignal): Promise<void> => taskEnd(records, upid, until);
    // What HA is told is a task of a server, whose machine need not be a node.
    if (isServerTask({ pid })) await end(task, signal);
    else await untilTaskEnd({ board, clock: ctx.clock, taskEnd: end }, { node, upid: task, signal });
  } catch (err) {
    signal.throwIfAborted();
    ctx.warn(`VM ${vmid}: ${messageOf(err).trim()}`);
  }
}

/** UPID of its task. */
async function begin(
  { records, board, calls, accessOf, newRequestId }: AtOnceDeps,
  { args, actor: authid, signal, log }: StepContext<AtOnceArgs>,
  vmid: number,
): Promise<string> {
  const { route, says } = VERBS[args.verb];
  const guest = records.collection(guestCollection).get(String(vmid))?.value;
  if (guest === undefined) throw missing("it is gone");
  log(`${says} VM ${vmid}`);
  const online = args.onlineIfRunning === true && isRunning(board, guest) ? true : undefined;
  const actor = actorOf(authid);
  const { data } = await calls.call(
    guest.node,
    route,
    { vmid, ...args.params, ...given({ online }) },
    { actor, access: accessOf(actor), requestId: newRequestId(), clientAddress: "", signal },
  );
  return String(data);
}

/** In the order of their turns. */
function meant(deps: AtOnceDeps, args: AtOnceArgs): readonly GuestRecord[] {
  const { node, vmids } = args;
  const all = deps.records
    .collection(guestCollection)
    .list()
    .map(({ value }) => value)
    .filter((guest) => guest.type === VM_TYPE && (node === undefined || guest.node === node))
    .filter(({ vmid }) => vmids === undefined || vmids.includes(vmid))
    .filter((guest) => hasWork(deps.board, args, guest));
  if (args.verb === "migrate") return all.toSorted((a, b) => a.vmid - b.vmid);
  const byId = new Map(all.map((guest) => [guest.vmid, guest]));
  const order = args.verb === "start" ? startOrder : stopOrder;
  const steps = order(
    all.map((guest) => ({
      vmid: guest.vmid,
      onboot: false,
      ...given({ startup: vmConfigOf(guest).values["startup"] }),
    })),
  );
  return steps.flatMap(({ vmid }) => byId.get(vmid) ?? []);
}

function hasWork(board: AtOnceDeps["board"], { verb, params }: AtOnceArgs, guest: GuestRecord): boolean {
  switch (verb) {
    case "migrate":
      return guest.node !== params["target"];
    case "start":
      return !guest.summary.template && !isRunning(board, guest);
    case "shutdown":
    case "suspend":
      return isRunning(board, guest);
  }
}

function whyNot({ records }: AtOnceDeps, { verb, node }: AtOnceArgs, vmid: number): string {
  const guest = records.collection(guestCollection).get(String(vmid))?.value;
  if (guest?.type !== VM_TYPE) return "there is no such VM";
  if (node !== undefined && guest.node !== node) return `it is on node '${guest.node}'`;
  const words = {
    migrate: "it is there already",
    start: guest.summary.template ? "a template cannot be started" : "it runs already",
    shutdown: "it does not run",
    suspend: "it does not run",
  };
  return words[verb];
}

function isRunning(board: AtOnceDeps["board"], { node, vmid }: GuestRecord): boolean {
  return (
    board.get(node)?.report?.guests.some((each) => each.vmid === vmid && each.status === "running") ?? false
  );
}
