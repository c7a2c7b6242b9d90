// Starting, stopping and pausing all VMs of this node, one task each, in their order.
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { startOrder, stopGroups, stopOrder, type StartableGuest } from "@gpve/domain/guest/startup-order.ts";
import { isTemplate } from "@gpve/domain/vm/config/lock.ts";
import { runningVm } from "./running-vm.ts";
import type { VmConfigs } from "./config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface AllVmsPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
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

export function allVmsOperations(
  host: AllVmsPorts,
  engine: OperationEngine,
): readonly OperationDefinition<AllArgs>[] {
  const operation = (
    type: string,
    run: (ctx: StepContext<AllArgs>) => Promise<void>,
  ): OperationDefinition<AllArgs> => ({ type, onCrash: "resume", steps: [{ name: "all", run }] });
  return [
    operation("startall", async (ctx) => {
      const wanted = chosen(host, ctx.args).filter(
        ({ vmid, onboot }) =>
          (onboot || ctx.args.force === true || ctx.args.vmids !== undefined) &&
          runningVm(host, vmid) === undefined,
      );
      const steps = startOrder(wanted);
      for (const [at, { vmid, up }] of steps.entries()) {
        ctx.log(`Starting VM ${vmid}`);
        await runOne(engine, ctx, "qmstart", vmid, {});
        if (up > 0 && at < steps.length - 1) {
          ctx.log(`Waiting for ${up} seconds (startup delay)`);
          await ctx.clock.sleep(up * 1000, ctx.signal);
        }
      }
    }),
    operation("stopall", async (ctx) => {
      for (const group of stopGroups(runningOnes(host, ctx.args))) {
        await Promise.all(
          group.map(async ({ vmid, down }) => {
            ctx.log(`Stopping VM ${vmid}`);
            await runOne(engine, ctx, "qmshutdown", vmid, {
              timeoutSeconds: down ?? ctx.args.timeoutSeconds ?? STOP_SECONDS,
              forceStop: ctx.args.forceStop ?? true,
            });
          }),
        );
      }
    }),
    operation("suspendall", async (ctx) => {
      for (const { vmid } of stopOrder(runningOnes(host, ctx.args))) {
        ctx.log(`Suspending VM ${vmid}`);
        await runOne(engine, ctx, "qmpause", vmid, {});
      }
    }),
  ];
}

/** One guest that fails does not keep the others from their turn. */
async function runOne(
  engine: OperationEngine,
  ctx: StepContext<AllArgs>,
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
  if (ended.state !== "done") ctx.warn(`VM ${vmid}: ${ended.error ?? ended.state}`);
}

function chosen(host: AllVmsPorts, { vmids }: AllArgs): StartableGuest[] {
  return host.configs
    .list()
    .filter((vmid) => vmids === undefined || vmids.includes(vmid))
    .flatMap((vmid) => {
      const config = host.configs.find(vmid);
      if (config === undefined || isTemplate(config)) return [];
      const { onboot, startup } = config.values;
      return [{ vmid, onboot: onboot === "1", ...(startup === undefined ? {} : { startup }) }];
    });
}

function runningOnes(host: AllVmsPorts, args: AllArgs): StartableGuest[] {
  return chosen(host, args).filter(({ vmid }) => runningVm(host, vmid) !== undefined);
}
