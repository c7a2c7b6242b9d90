// Creating a VM: its id is taken first, then its disks are made, then it is there. A crash in between leaves nothing.
import { guestArch } from "@gpve/domain/vm/argv/processor/guest-arch.ts";
import { defaultBootDevices } from "@gpve/domain/vm/config/boot-order.ts";
import { requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { newVmValues } from "@gpve/domain/vm/change/new-vm.ts";
import { printBootDevices } from "@gpve/domain/vm/config/vm-properties.ts";
import { emptyVmConfig, type VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { refuseSecondCloudinit, writeCloudinit } from "./cloudinit-drive.ts";
import { listVolumes } from "./free-volumes.ts";
import { makeDrive, storagesFor, type NewDisksPorts } from "./new-disks.ts";
import { withPrefix } from "../pve-words.ts";
import { undoNewDisks } from "./undo-new-disks.ts";
import { runningVm } from "../running-vm.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { VmStarter } from "../start/vm-starter.ts";

export interface CreateVmPorts extends NewDisksPorts {
  readonly ids: Ids;
  readonly starter: VmStarter;
}

export interface CreateArgs {
  readonly vmid: number;
  readonly values: VmValues;
  readonly start: boolean;
  readonly pool?: string;
  /** The request that asked for it. */
  readonly madeBy?: string;
  readonly microvm?: Microvm;
  /** It was asked for as a resource of high availability. */
  readonly haManaged?: boolean;
}

interface CreateState {
  /** Volumes that were there before; an undo leaves them alone. */
  existing?: readonly string[];
  drives: Record<string, string>;
}

export function createVmOperation(host: CreateVmPorts): OperationDefinition<CreateArgs, CreateState> {
  return {
    type: "qmcreate",
    lock: "create",
    initialState: () => ({ drives: {} }),
    plan: ({ start }) => [
      {
        name: "reserve",
        run: async ({ args, state, checkpoint }) => {
          if (state.existing === undefined) {
            // Whoever was before us in the queue may have taken the id.
            host.configs.requireFree(args.vmid);
            state.existing = await listVolumes(host, args.vmid, storagesFor(args.values));
            await checkpoint();
          }
          if (!host.configs.has(args.vmid)) {
            const reserved = { ...emptyVmConfig, values: { lock: "create" } };
            await host.configs.create(args.vmid, reserved, args);
          }
        },
        undo: async ({ args, state }) => {
          if (state.existing !== undefined) await host.configs.remove(args.vmid);
        },
      },
      {
        name: "disks",
        weight: 8,
        run: async ({ args, state, signal, log, progress, checkpoint }) => {
          // By name, as PVE goes through them: that is what numbers the volumes.
          for (const key of Object.keys(args.values).toSorted()) {
            const text = args.values[key];
            if (text === undefined || !isDriveKey(key) || state.drives[key] !== undefined) continue;
            await withPrefix(`unable to create VM ${args.vmid} - `, async () => {
              refuseSecondCloudinit(key, requireDrive(key, text), [state.drives]);
              state.drives[key] = await makeDrive(host, args.vmid, key, text, {
                signal,
                log,
                progress,
                values: args.values,
              });
            });
            log(`${key}: successfully created disk '${state.drives[key]}'`);
            await checkpoint();
          }
        },
        undo: async ({ args, state, log }) => {
          if (state.existing !== undefined)
            await undoNewDisks(host, args.vmid, args.values, state.existing, log);
        },
      },
      {
        name: "configuration",
        run: async ({ args, state, clock, signal, log, warn }) => {
          await host.qemu.known();
          const values = await withPrefix(`unable to create VM ${args.vmid} - `, async () => {
            const made = newVmValues(
              { ...args.values, ...state.drives },
              {
                newUuid: host.ids.newUuid,
                newMac: host.ids.newMac,
                qemuVersion: host.qemu.facts().qemuVersion,
                arch: guestArch(args.values, host.qemu.facts()),
                now: Math.floor(clock.now() / 1000),
              },
            );
            await writeCloudinit(host, args.vmid, made, log);
            return made;
          });
          const boot = values["boot"] ?? printBootDevices(defaultBootDevices(values));
          await host.configs.change(args.vmid, (config) =>
            config.values["lock"] === "create" ? { ...config, values: { ...values, boot } } : config,
          );
          if (!(await host.configs.waitForPool(args.vmid, clock, signal)))
            warn(`VM ${args.vmid} is not yet in pool '${args.pool ?? ""}'`);
          if (args.haManaged === true)
            warn(`VM ${args.vmid} is no HA resource: this cluster offers no high availability yet`);
        },
      },
      ...(start
        ? [
            {
              name: "start",
              // A VM that was made but does not start is still there, as on PVE.
              run: async (ctx: StepContext<CreateArgs, CreateState>) => {
                if (runningVm(host, ctx.args.vmid) !== undefined) return;
                ctx.log("Execute autostart");
                try {
                  await host.starter.start(ctx.args, ctx);
                } catch (err) {
                  if (ctx.signal.aborted) throw err;
                  ctx.warn(messageOf(err));
                }
              },
            },
          ]
        : []),
    ],
  };
}
