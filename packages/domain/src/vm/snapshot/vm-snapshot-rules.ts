// Snapshots of VMs: their drives, their machine, and how they go on from saved RAM.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { without, type GuestConfig, type GuestValues } from "../../guest/guest-config.ts";
import type { SavedState, SnapshotRules } from "../../guest/snapshot/snapshot-rules.ts";
import { addUnused, isCdrom, listDisks, listDrives } from "../config/drive.ts";
import { readVmProperty } from "../config/vm-properties.ts";
import type { VmValues } from "../config/vm-config.ts";

/** RAM of the running guest, kept with the snapshot. */
export type SavedVmState = SavedState & {
  readonly runningmachine: string;
  readonly runningcpu?: string;
  readonly "running-nets-host-mtu"?: string;
};

/** How the guest must be started to continue from the saved RAM. */
export interface StartFromState {
  readonly vmstate: string;
  readonly machine: string;
  readonly cpu?: string;
  readonly netsHostMtu?: string;
}

export const vmSnapshotRules: SnapshotRules<StartFromState> = {
  checkStateSavable,
  volumes: (values) => listDisks(values).map(({ key, drive }) => ({ key, volid: drive.file })),
  named: (values) => listDrives(values).map(({ drive }) => drive.file),
  // Devices of the host are nobody's volumes.
  kept: (values) =>
    listDrives(values).flatMap(({ drive }) =>
      isCdrom(drive, true) || drive.file.startsWith("/") ? [] : [drive.file],
    ),
  addUnused,
  madeAnew: strayCloudinit,
  goBack: ({ before, values, snapshot, newUuid }) => {
    const vmstate = snapshot["vmstate"];
    const running = snapshot["runningmachine"];
    // Snapshots of old releases did not say which machine ran; theirs was this one.
    const machineType = values["machine"] === undefined ? undefined : machineOf(values["machine"]);
    const machine = running ?? machineType ?? "pc-i440fx-1.4";
    let next = values;
    if (running === undefined && vmstate !== undefined && before["machine"] === undefined)
      next = without(next, "machine");
    next = without(next, "runningmachine", "running-nets-host-mtu");
    if (running !== undefined) next = without(next, "runningcpu");
    // A guest that went back in time must not believe it is the same generation.
    if (next["vmgenid"] !== undefined && next["vmgenid"] !== "0") next = { ...next, vmgenid: newUuid() };
    const cpu = running === undefined ? undefined : snapshot["runningcpu"];
    const netsHostMtu = snapshot["running-nets-host-mtu"];
    const start = vmstate === undefined ? undefined : { vmstate, machine, ...given({ cpu, netsHostMtu }) };
    return { values: next, start };
  },
};

/** Devices whose state QEMU cannot put into a stream: no RAM is saved beside them. */
export function checkStateSavable(values: VmValues): void {
  const blockers = [
    ...(values["amd-sev"] === undefined ? [] : ["amd-sev"]),
    ...(Object.keys(values).some((key) => /^virtiofs\d+$/.test(key)) ? ["virtiofs"] : []),
  ];
  if (blockers.length > 0)
    throw new AppError(
      "feature.unsupported",
      `Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: ${blockers.join(", ")}`,
      { pveStatus: 500 },
    );
}

/** Cloud-init drives that no snapshot has. */
function strayCloudinit(config: GuestConfig): string[] {
  const filesOf = (values: GuestValues): string[] => listDrives(values).map(({ drive }) => drive.file);
  const inSnapshots = new Set(Object.values(config.snapshots).flatMap(filesOf));
  return [...filesOf(config.values), ...filesOf(config.pending)].filter(
    (volid) => !inSnapshots.has(volid) && /vm-\d+-cloudinit/.test(volid),
  );
}

function machineOf(text: string): string | undefined {
  return readVmProperty("machine", text, "machine").type;
}
