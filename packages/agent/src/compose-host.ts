// Wires what can be read of the host beside its guests.
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { DiskInventory } from "./infrastructure/disks/disk-inventory.ts";
import { LinuxDiskHost } from "./infrastructure/disks/linux-disk-host.ts";
import { VolumeManagers } from "./infrastructure/disks/volume-managers.ts";
import { hostFiles } from "./infrastructure/facts/host-files.ts";
import { forAMoment } from "./infrastructure/host/for-a-moment.ts";
import { HostLog } from "./infrastructure/host/host-log.ts";
import { HostServices } from "./infrastructure/host/host-services.ts";
import { DebianHost } from "./infrastructure/packages/debian-host.ts";
import { blockDevice } from "./infrastructure/disks/block-device.ts";
import { createHostDiskHandlers } from "./presentation/pve/node/disk-handlers.ts";
import { createHostStateHandlers } from "./presentation/pve/node/host-state-handlers.ts";

const KEPT_MS = 3_000;

export interface HostParts {
  readonly data: DataDir;
  readonly node: string;
  readonly exec: Exec;
  readonly kernel: () => { readonly release: string; readonly machine: string };
  /** Running guests with the traffic of their network cards. */
  readonly guests: () => readonly GuestRuntime[];
  /** Whether a server runs in this process too. */
  readonly withServer: boolean;
}

export function composeHost({ data, node, exec, kernel, guests, withServer }: HostParts): PveHandlers {
  const inventory = new DiskInventory(new LinuxDiskHost({ exec }));
  const now = (): number => systemClock.monotonic();
  const disks = forAMoment(
    (asked: Parameters<DiskInventory["list"]>[0]) => inventory.list(asked),
    KEPT_MS,
    now,
  );
  const hostServices = new HostServices({ exec, withServer });
  const services = forAMoment(() => hostServices.list(), KEPT_MS, now);
  return {
    ...createHostDiskHandlers({
      blockDevice,
      disks: {
        list: ({ smart, partitions }) => disks({ smart, partitions }),
        smart: (devpath, healthOnly) => inventory.smart(devpath, healthOnly),
      },
      volumes: new VolumeManagers({ exec }),
    }),
    ...createHostStateHandlers({
      services: { list: () => services(undefined) },
      log: new HostLog({ exec, node, ownLog: data.file("log", "gpve.jsonl") }),
      guests,
      packages: new DebianHost({ exec, files: hostFiles, kernel }),
    }),
  };
}
