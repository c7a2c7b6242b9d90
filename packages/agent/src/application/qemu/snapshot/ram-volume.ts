// The volume that a running guest's RAM is written to, and what must be known to load it again.
import { given } from "@gpve/contracts/given.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess, QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { isShared } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import { ramVolumeBytes } from "@gpve/domain/vm/snapshot/ram-volume-size.ts";
import type { SavedVmState } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { requireRunningVm } from "../running-vm.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface RamVolumePorts {
  readonly storages: GuestStorages;
  readonly processes: QemuProcesses;
  readonly configs: VmConfigs;
}

/** What its file is for, where it is asked for. */
export const SAVED_RAM = "saving the RAM of a VM";

export interface RamVolumeRequest {
  readonly vmid: number;
  readonly storage: string;
  /** Ends the volume's name: a snapshot's, or "suspend-2026-01-31". */
  readonly name: string;
}

/** `begun` is called with the volume's id before anything is made. */
export async function allocateRamVolume(
  host: RamVolumePorts,
  values: VmValues,
  request: RamVolumeRequest,
  work: { readonly signal: AbortSignal; readonly begun: (vmstate: string) => Promise<void> },
): Promise<SavedVmState> {
  const { vmid, storage, name } = request;
  const process = requireRunningVm(host, vmid);
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  const own = plugin.own(vmid, `vm-${vmid}-state-${name}`, "raw");
  const vmstate = formatVolumeId({ storage, volname: own.volname });
  await work.begun(vmstate);
  const size = ramVolumeBytes(values);
  await plugin.alloc({ vmid, format: "raw", name: own.name, size }, work);
  const { machine = "", cpu } = (process.note ?? {}) as { machine?: string; cpu?: string };
  const mtu = await hostMtus(process, values, work.signal);
  return {
    vmstate,
    runningmachine: machine,
    ...given({ runningcpu: cpu }),
    ...(mtu === "" ? {} : { "running-nets-host-mtu": mtu }),
  };
}

/** "net0=1500,net1=0": what the guest was told of its networks, which must be so again when its RAM comes back. */
async function hostMtus(process: QemuProcess, values: VmValues, signal: AbortSignal): Promise<string> {
  const found: string[] = [];
  for (const key of Object.keys(values).toSorted()) {
    if (!/^net\d+$/.test(key) || readVmProperty("net", values[key] ?? "", key).model !== "virtio") continue;
    try {
      const path = `/machine/peripheral/${key}`;
      const mtu = await process.qmp.execute("qom-get", { path, property: "host_mtu" }, { signal });
      if (typeof mtu === "number") found.push(`${key}=${mtu}`);
    } catch (err) {
      // A card that is not in the guest yet: it is made as the configuration says.
      if (!isAppError(err, "qmp.failed")) throw err;
    }
  }
  return found.join(",");
}

/** `vmstatestorage`, else one where the VM has a disk: shared before local, directories before others; else `local`. */
export function stateStorage(storages: Pick<GuestStorages, "definition">, values: VmValues): string {
  const wanted = values["vmstatestorage"];
  if (wanted !== undefined) return wanted;
  const used = new Set(listDisks(values).flatMap(({ drive }) => parseVolumeId(drive.file)?.storage ?? []));
  let shared: string | undefined;
  let local: string | undefined;
  for (const storage of [...used].toSorted()) {
    const definition = storages.definition(storage);
    const isDirectory = definition.options["path"] !== undefined;
    if (isShared(definition)) shared = shared === undefined || isDirectory ? storage : shared;
    else local = local === undefined || isDirectory ? storage : local;
  }
  return shared ?? local ?? "local";
}
