// What can happen to a toy beside what any guest has.
import type { GuestProcess, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { GuestConfigs } from "../../application/guest/guest-configs.ts";
import { volumeOf, type GuestStorages } from "../../application/guest/guest-storages.ts";

export interface ToyPorts {
  readonly configs: GuestConfigs;
  readonly processes: Pick<GuestProcesses, "start" | "get">;
  readonly storages: GuestStorages;
}

export const TOY_OPERATIONS = { create: "toycreate", start: "toystart", shutdown: "toystop" } as const;
const VOLUME_BYTES = 1024 * 1024;

export function runningToy({ processes }: ToyPorts, vmid: number): GuestProcess | undefined {
  return processes.get(String(vmid));
}

export async function startToy(host: ToyPorts, vmid: number): Promise<void> {
  checkLock(host.configs.get(vmid));
  if (runningToy(host, vmid) !== undefined) return;
  await host.processes.start({
    id: String(vmid),
    label: `TOY ${vmid}`,
    program: "/usr/bin/sleep",
    args: ["infinity"],
    files: [],
  });
}

export function createToyOperation({
  configs,
  storages,
}: ToyPorts): OperationDefinition<{ vmid: number; name: string; storage: string }, { disk?: string }> {
  return {
    type: TOY_OPERATIONS.create,
    steps: [
      {
        name: "volume",
        run: async ({ args: { vmid, storage }, state, checkpoint }) => {
          configs.requireFree(vmid);
          const plugin = storages.plugin(storage);
          await plugin.activate();
          const volname = await plugin.alloc({ vmid, format: "qcow2", size: VOLUME_BYTES });
          state.disk = `${storage}:${volname}`;
          await checkpoint();
        },
        undo: async ({ state: { disk } }) => {
          if (disk === undefined) return;
          const { plugin, volname } = volumeOf({ storages }, disk);
          await plugin.free(volname);
        },
      },
      {
        name: "configuration",
        run: async ({ args: { vmid, name }, state: { disk = "" } }) => {
          const values = { name, disk, onboot: "1" };
          if (!configs.has(vmid))
            await configs.create(vmid, { digest: "", values, pending: {}, special: {}, snapshots: {} });
        },
        undo: ({ args: { vmid } }) => configs.remove(vmid),
      },
    ],
  };
}

export function startToyOperation(host: ToyPorts): OperationDefinition<{ vmid: number }> {
  return {
    type: TOY_OPERATIONS.start,
    steps: [{ name: "start", run: ({ args: { vmid } }) => startToy(host, vmid) }],
  };
}

export function stopToyOperation(host: ToyPorts): OperationDefinition<{ vmid: number }> {
  return {
    type: TOY_OPERATIONS.shutdown,
    onCrash: "resume",
    steps: [
      {
        name: "stop",
        run: async ({ args: { vmid }, signal }) => {
          await runningToy(host, vmid)?.stop({ signal });
        },
      },
    ],
  };
}
