// Starting, stopping and pausing all guests of this node, one task each, in their order, whatever kind they are of.
import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { startOrder, stopGroups, stopOrder, type StartableGuest } from "@gpve/domain/guest/startup-order.ts";

/** What a kind of guest is asked when all of a node are meant. */
export interface OrderedGuests {
  /** As the task's log names one: "VM". */
  readonly noun: string;
  /** Guests of this node, without templates. */
  list(): readonly StartableGuest[];
  isRunning(vmid: number): boolean;
  /** Operations that do it for one of them. */
  readonly operations: {
    readonly start: string;
    readonly shutdown: string;
    /** At once, also where it is being shut down. */
    readonly stop: string;
    readonly pause: string;
    /** To another node while it runs; absent = it is stopped here and started there. */
    readonly move?: string;
  };
}

interface OrderedGuest extends StartableGuest {
  readonly kind: OrderedGuests;
}

export interface AllArgs {
  /** undefined = all of the node. */
  readonly vmids?: readonly number[];
  /** Also those that do not start at boot. */
  readonly force?: boolean;
  readonly timeoutSeconds?: number;
  readonly forceStop?: boolean;
  /** How many are stopped at the same time. */
  readonly workers?: number;
}

export interface AllGuestsDeps {
  readonly kinds: readonly OrderedGuests[];
  readonly engine: OperationEngine;
  /** HA starts and stops its own: told to the node, it would undo that. */
  readonly isManaged: (vmid: number) => boolean;
  /** Where nobody says how many at the same time. */
  readonly workers: () => number;
}

const STOP_SECONDS = 180;

export function allGuestsOperations(deps: AllGuestsDeps): readonly OperationDefinition<AllArgs>[] {
  const { engine } = deps;
  const operation = (
    type: string,
    run: (ctx: StepContext<AllArgs>) => Promise<void>,
    overtakes: readonly string[] = [],
  ): OperationDefinition<AllArgs> => ({ type, onCrash: "resume", overtakes, steps: [{ name: "all", run }] });
  return [
    operation("startall", async (ctx) => {
      const { force, vmids } = ctx.args;
      const isMeant = ({ onboot }: OrderedGuest): boolean => force === true || vmids !== undefined || onboot;
      const wanted = ownOfNode(deps, ctx).filter(
        (guest) => isMeant(guest) && !guest.kind.isRunning(guest.vmid),
      );
      const kindOf = kindsBy(wanted);
      const steps = startOrder(wanted);
      for (const [at, { vmid, up }] of steps.entries()) {
        const { noun, operations } = kindOf(vmid);
        ctx.log(`Starting ${noun} ${vmid}`);
        await runOne(engine, ctx, `${noun} ${vmid}`, operations.start, vmid, {});
        if (up > 0 && at < steps.length - 1) {
          ctx.log(`Waiting for ${up} seconds (startup delay)`);
          await ctx.clock.sleep(up * 1000, ctx.signal);
        }
      }
    }),
    // A start that waits for each of many guests does not keep them from being stopped.
    operation(
      "stopall",
      async (ctx) => {
        const running = runningOnes(ownOfNode(deps, ctx));
        const kindOf = kindsBy(running);
        const { workers = deps.workers(), timeoutSeconds = STOP_SECONDS, forceStop = true } = ctx.args;
        for (const group of stopGroups(running))
          await atMost(workers, group, async ({ vmid, down }) => {
            const { noun, operations } = kindOf(vmid);
            ctx.log(`Stopping ${noun} ${vmid}`);
            const args = { timeoutSeconds: down ?? timeoutSeconds, forceStop };
            await runOne(engine, ctx, `${noun} ${vmid}`, operations.shutdown, vmid, args);
          });
      },
      ["startall"],
    ),
    operation("suspendall", async (ctx) => {
      const running = runningOnes(chosen(deps, ctx.args));
      const kindOf = kindsBy(running);
      for (const { vmid } of stopOrder(running)) {
        const { noun, operations } = kindOf(vmid);
        ctx.log(`Suspending ${noun} ${vmid}`);
        await runOne(engine, ctx, `${noun} ${vmid}`, operations.pause, vmid, {});
      }
    }),
  ];
}

/** One guest that fails does not keep the others from their turn. */
async function runOne(
  engine: OperationEngine,
  ctx: StepContext<AllArgs>,
  label: string,
  type: string,
  vmid: number,
  args: object,
): Promise<void> {
  const { operation } = await engine.submit({
    type,
    resources: [`vm/${vmid}`],
    args: { vmid, ...args },
    actor: ctx.actor,
    subject: String(vmid),
    requestId: `${ctx.id}/${vmid}`,
  });
  const ended = await engine.wait(operation.id, ctx.signal);
  if (ended.state !== "done") ctx.warn(`${label}: ${ended.error ?? ended.state}`);
}

/** Those under HA only where they are named. */
function chosen({ kinds, isManaged }: AllGuestsDeps, { vmids }: AllArgs): OrderedGuest[] {
  return kinds.flatMap((kind) =>
    kind
      .list()
      .filter(({ vmid }) => (vmids === undefined ? !isManaged(vmid) : vmids.includes(vmid)))
      .map((guest) => ({ ...guest, kind })),
  );
}

/** What becomes of those under HA is not told to the node: the server that was asked has told HA of those that are named. */
function ownOfNode(deps: AllGuestsDeps, { args, log }: StepContext<AllArgs>): OrderedGuest[] {
  return chosen(deps, args).filter(({ kind, vmid }) => {
    if (!deps.isManaged(vmid)) return true;
    log(`${kind.noun} ${vmid} is under HA, which is told`);
    return false;
  });
}

function runningOnes(guests: readonly OrderedGuest[]): OrderedGuest[] {
  return guests.filter(({ kind, vmid }) => kind.isRunning(vmid));
}

async function atMost<T>(
  workers: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}

/** Orders know guests by their number alone. */
function kindsBy(guests: readonly OrderedGuest[]): (vmid: number) => OrderedGuests {
  const kinds = new Map(guests.map(({ vmid, kind }) => [vmid, kind]));
  return (vmid) => {
    const kind = kinds.get(vmid);
    if (kind === undefined) throw new AppError("internal.error", `guest ${vmid} was not asked for`);
    return kind;
  };
}
