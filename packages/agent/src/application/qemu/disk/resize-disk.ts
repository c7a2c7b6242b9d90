// Growing a disk, also while the guest uses it.
import { refused } from "@gpve/domain/request/failures.ts";
import { checkDigest } from "@gpve/domain/vm/change/config-update.ts";
import { wantedBytes } from "@gpve/domain/vm/change/disk-size.ts";
import { isCdrom, isInQemu, printDrive, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { presentTop } from "./top-node.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface ResizeDiskPorts {
  readonly configs: VmConfigs;
  readonly storages: GuestStorages;
  readonly processes: QemuProcesses;
}

export interface ResizeArgs {
  readonly vmid: number;
  readonly disk: string;
  /** "+5G", "20G", "21474836480" */
  readonly size: string;
  readonly digest?: string;
  readonly skiplock: boolean;
  /** Storages on which whoever asks may take space; absent: all. */
  readonly allowedStorages?: readonly string[];
}

interface ResizeState {
  /** Decided once: a second try must not grow the disk twice. */
  bytes?: number;
}

export function resizeDiskOperation(host: ResizeDiskPorts): OperationDefinition<ResizeArgs, ResizeState> {
  return {
    type: "resize",
    // A disk never shrinks, so there is nothing to undo.
    onCrash: "resume",
    steps: [
      {
        name: "resize",
        run: async ({ args, state, signal, log, checkpoint }) => {
          const { vmid, disk } = args;
          const config = host.configs.get(vmid);
          if (state.bytes === undefined) checkDigest(config, args.digest);
          if (!args.skiplock) checkLock(config);
          const text = config.values[disk];
          if (text === undefined) throw refused(`disk '${disk}' does not exist`);
          const drive = requireDrive(disk, text);
          if (isCdrom(drive)) throw refused("you can't resize a cdrom");
          const { plugin, volname, storage } = volumeOf(host, drive.file);
          if (args.allowedStorages?.includes(storage) === false)
            throw refused(`Permission check failed (/storage/${storage}, Datastore.AllocateSpace)`);
          await plugin.activate();
          const { size: now } = await plugin.info(volname);
          if (state.bytes === undefined) {
            state.bytes = wantedBytes(args.size, now);
            await checkpoint();
          }
          const { bytes } = state;
          if (bytes < now) throw refused("shrinking disks is not supported");
          if (bytes > now) {
            if (!plugin.has("resize", volname)) throw refused("can't resize this image format");
            log(`update VM ${vmid}: resize --disk ${disk} --size ${args.size}`);
            const process = isInQemu(config.values, disk) ? runningVm(host, vmid) : undefined;
            if (process === undefined || plugin.liveWork(volname) === "storage")
              await plugin.resize(volname, bytes, { signal, log });
            if (process !== undefined) {
              const top = await presentTop(process, disk);
              await process.qmp.execute("block_resize", { "node-name": top, size: bytes });
            }
          }
          await host.configs.change(vmid, (current) => {
            const sized = (value: string | undefined): Record<string, string> => {
              const known = value === undefined ? undefined : requireDrive(disk, value);
              if (value === undefined || known?.file !== drive.file) return {};
              return { [disk]: keepNumberText(value, printDrive(disk, { ...known, size: bytes })) };
            };
            // Options that wait for the next start must not bring back the old size with them.
            return {
              ...current,
              values: { ...current.values, ...sized(current.values[disk]) },
              pending: { ...current.pending, ...sized(current.pending[disk]) },
            };
          });
        },
      },
    ],
  };
}
