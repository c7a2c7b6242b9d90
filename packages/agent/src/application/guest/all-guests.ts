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
}

const STOP_SECONDS = 180;

export function allGuestsOperations(
  kinds: readonly OrderedGuests[],
  engine: OperationEngine,
  /** HA starts its own. */
  isManaged: (vmid: number) => boolean,
): readonly OperationDefinition<AllArgs>[] {
  const operation = (
    type: string,
    run: (ctx: StepContext<AllArgs>) => Promise<void>,
  ): OperationDefinition<AllArgs> => ({ type, onCrash: "resume", steps: [{ name: "all", run }] });
  return [
    operation("startall", async (ctx) => {
      const { force, vmids } = ctx.args;
      const isMeant = ({ vmid, onboot }: OrderedGuest): boolean =>
        force === true || vmids !== undefined || (onboot && !isManaged(vmid));
      const wanted = chosen(kinds, ctx.args).filter(
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
    operation("stopall", async (ctx) => {
      const running = runningOnes(kinds, ctx.args);
      const kindOf = kindsBy(running);
      for (const group of stopGroups(running)) {
        await Promise.all(
          group.map(async ({ vmid, down }) => {
            const { noun, operations } = kindOf(vmid);
            ctx.log(`Stopping ${noun} ${vmid}`);
            await runOne(engine, ctx, `${noun} ${vmid}`, operations.shutdown, vmid, {
              timeoutSeconds: down ?? ctx.args.timeoutSeconds ?? STOP_SECONDS,
              forceStop: ctx.args.forceStop ?? true,
            });
          }),
        );
      }
    }),
    operation("suspendall", async (ctx) => {
      const running = runningOnes(kinds, ctx.args);
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

function chosen(kinds: readonly OrderedGuests[], { vmids }: AllArgs): OrderedGuest[] {
  return kinds.flatMap((kind) =>
    kind
      .list()
      .filter(({ vmid }) => vmids === undefined || vmids.includes(vmid))
      .map((guest) => ({ ...guest, kind })),
  );
}

function runningOnes(kinds: readonly OrderedGuests[], args: AllArgs): OrderedGuest[] {
  return chosen(kinds, args).filter(({ kind, vmid }) => kind.isRunning(vmid));
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
