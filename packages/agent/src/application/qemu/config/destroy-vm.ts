import { conflict } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { checkDigest } from "@gpve/domain/vm/change/config-update.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { fleecingImages, freeVolume, hasClones, listVolumes, ownedVolumes } from "./free-volumes.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "./vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { BackupChains } from "@gpve/domain/backup/backup-chain.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";

export interface DestroyVmPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly chains: BackupChains;
  readonly storages: GuestStorages;
}

export interface DestroyArgs {
  readonly vmid: number;
  readonly destroyUnreferenced: boolean;
  readonly skiplock: boolean;
  /** Backup jobs forget it as well. */
  readonly purge?: boolean;
  /** Whoever asked had this VM before him: another one under the id, or a changed one, is left alone. */
  readonly meant?: MeantVm;
  /** Storages to search for disks that no configuration names. */
  readonly storages: readonly string[];
}

export interface MeantVm {
  /** Of its configuration. */
  readonly digest?: string;
  /** The request that had it made. */
  readonly madeBy?: string;
}

export function requireMeant(
  host: Pick<DestroyVmPorts, "configs">,
  vmid: number,
  { digest, madeBy }: MeantVm,
): void {
  checkDigest(host.configs.get(vmid), digest);
  if (madeBy === undefined || madeBy === host.configs.madeBy(vmid)) return;
  throw new AppError("object.conflict", `VM ${vmid} is not the one that was meant: another has its id now`);
}

/** What PVE finds before it forks. */
export function checkDestroyable(host: DestroyVmPorts, vmid: number): VmConfig {
  const config = host.configs.get(vmid);
  if (config.values["protection"] === "1") {
    throw conflict(`can't remove VM ${vmid} - protection mode enabled`);
  }
  requireStopped(host, vmid);
  return config;
}

interface DestroyState {
  /** The configuration was there when it began: that it is gone is then its own doing. */
  begun?: boolean;
}

export function destroyVmOperation(host: DestroyVmPorts): OperationDefinition<DestroyArgs, DestroyState> {
  return {
    type: "qmdestroy",
    // Once a disk is gone there is no way back: a crash goes on where it was.
    onCrash: "resume",
    steps: [
      {
        name: "destroy",
        run: async ({ args, state, log, warn, clock, signal, checkpoint }) => {
          const { vmid } = args;
          const config = state.begun === true ? host.configs.find(vmid) : host.configs.get(vmid);
          if (config === undefined) return;
          if (state.begun !== true && args.meant !== undefined) requireMeant(host, vmid, args.meant);
          const lock = config.values["lock"];
          if (lock !== undefined && lock !== "destroyed" && lock !== "suspended" && !args.skiplock) {
            throw new AppError("resource.busy", `VM is locked (${lock})`, { pveStatus: 500 });
          }
          requireStopped(host, vmid);
          if (config.values["template"] === "1")
            await requireNoClones(host, ownedVolumes(host, vmid, config));
          state.begun = true;
          await checkpoint();
          await host.configs.change(vmid, (current) => ({
            ...current,
            values: { ...current.values, lock: "destroyed" },
          }));
          const referenced = [...ownedVolumes(host, vmid, config), ...fleecingImages(host, vmid, config)];
          const more = args.destroyUnreferenced ? await listVolumes(host, vmid, args.storages) : [];
          for (const volid of new Set([...referenced, ...more])) await freeVolume(host, volid, log);
          await host.processes.forget(String(vmid));
          await host.chains.forget(vmid);
          const purge = args.purge === true;
          if (purge) log(`purging VM ${vmid} from related configurations..`);
          await host.configs.remove(vmid, purge);
          if (purge && !(await host.configs.waitForPurge(vmid, clock, signal)))
            warn(`VM ${vmid} is not yet out of the backup jobs`);
        },
      },
    ],
  };
}

/** A template whose clones still read from it stays whole: looked at before anything is locked or removed. */
async function requireNoClones(host: DestroyVmPorts, volids: readonly string[]): Promise<void> {
  for (const volid of volids) {
    if (await hasClones(host, volid)) {
      throw conflict(`base volume '${volid}' is still in use by linked cloned`);
    }
  }
}

function requireStopped(host: DestroyVmPorts, vmid: number): void {
  if (runningVm(host, vmid) !== undefined) {
    throw conflict(`VM ${vmid} is running - destroy failed`);
  }
}
