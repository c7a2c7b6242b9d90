// What taking, deleting and rolling back a snapshot do to the configuration. Pure: every function takes the
// configuration as it is and returns the next one, or refuses with PVE's text.
//
//   (none) --prepare--> snapstate prepare --commit--> (complete) --markDeleting--> snapstate delete --finish--> (gone)
//   lock snapshot      ^^^^^^^^^^^^^^^^^^            lock snapshot-delete          ^^^^^^^^^^^^^^^^
import { given } from "@gpve/contracts/given.ts";
import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";
import { addUnused, isCdrom, listDrives, parseDrive } from "../config/drive.ts";
import { checkLock, hasLock, isTemplate, setLock, type GuestLock } from "../../guest/guest-lock.ts";
import type { VmConfig, VmValues } from "../config/vm-config.ts";
import { snapshotOf, without, withSnapshot } from "../../guest/guest-config.ts";
import { readVmProperty } from "../config/vm-properties.ts";

/** RAM of the running guest, kept with the snapshot. */
export interface SavedState {
  readonly vmstate: string;
  readonly runningmachine: string;
  readonly runningcpu?: string;
  readonly "running-nets-host-mtu"?: string;
}

export interface SnapshotRequest {
  readonly name: string;
  readonly description?: string;
  /** Unix seconds. */
  readonly snaptime: number;
  readonly state?: SavedState;
}

/** How the guest must be started to continue from the saved RAM. */
export interface StartFromState {
  readonly vmstate: string;
  readonly machine: string;
  readonly cpu?: string;
  readonly netsHostMtu?: string;
}

const NOT_COPIED = new Set(["snapstate", "snaptime", "vmstate", "lock", "digest", "description"]);

/** Devices whose state QEMU cannot put into a stream: no RAM is saved beside them. */
export function checkStateSavable(values: VmValues): void {
  const blockers = [
    ...(values["amd-sev"] === undefined ? [] : ["amd-sev"]),
    ...(Object.keys(values).some((key) => /^virtiofs\d+$/.test(key)) ? ["virtiofs"] : []),
  ];
  if (blockers.length > 0)
    throw refuse(
      "feature.unsupported",
      `Cannot live-migrate, snapshot (with RAM), or hibernate a VM with: ${blockers.join(", ")}`,
    );
}

export function checkSnapshotPossible(config: VmConfig, name: string, hasFeature: boolean): void {
  if (isTemplate(config)) throw refuse("request.invalid", "you can't take a snapshot if it's a template");
  checkLock(config);
  if (snapshotOf(config, name) !== undefined)
    throw refuse("object.exists", `snapshot name '${name}' already used`);
  if (!hasFeature) throw refuse("feature.unsupported", "snapshot feature is not available");
}

/** Locks the VM and records the snapshot as being made. */
export function prepareSnapshot(config: VmConfig, request: SnapshotRequest): VmConfig {
  checkSnapshotPossible(config, request.name, true);
  const values = { ...config.values, lock: "snapshot" };
  const snapshots: Record<string, VmValues> = {};
  for (const [name, snapshot] of Object.entries(config.snapshots)) {
    // A leftover reference to a deleted snapshot of this name would close a circle.
    snapshots[name] = snapshot["parent"] === request.name ? without(snapshot, "parent") : snapshot;
  }
  const snapshot: Record<string, string> = {
    ...request.state,
    ...copyable(values),
    snapstate: "prepare",
    snaptime: String(request.snaptime),
  };
  if (request.description !== undefined && request.description !== "")
    snapshot["description"] = request.description;
  return withSnapshot({ ...config, values, snapshots }, request.name, snapshot);
}

/** The snapshot is complete: it becomes the parent of the present state. */
export function commitSnapshot(config: VmConfig, name: string): VmConfig {
  if (!hasLock(config, "snapshot")) throw refuse("object.conflict", "missing snapshot lock");
  const snapshot = requireSnapshot(config, name);
  if (snapshot["snapstate"] !== "prepare") throw refuse("object.conflict", "wrong snapshot state");
  const values = { ...without(config.values, "lock"), parent: name };
  return withSnapshot({ ...config, values }, name, without(snapshot, "snapstate"));
}

export function lockForSnapshotDelete(config: VmConfig, name: string): VmConfig {
  requireSnapshot(config, name);
  return setLock(config, "snapshot-delete");
}

/** `expected` is the lock held: `snapshot` when a failed creation is cleaned up. */
export function markSnapshotDeleting(config: VmConfig, name: string, expected: GuestLock): VmConfig {
  requireLock(config, expected);
  if (isTemplate(config)) throw refuse("request.invalid", "you can't delete a snapshot if vm is a template");
  return withSnapshot(config, name, { ...requireSnapshot(config, name), snapstate: "delete" });
}

/** One volume's snapshot (or the saved RAM) is gone: the snapshot no longer names it. */
export function removeSnapshotDrive(
  config: VmConfig,
  name: string,
  key: string,
  expected: GuestLock,
): VmConfig {
  requireLock(config, expected);
  const snapshot = requireSnapshot(config, name);
  if (key === "vmstate") return withSnapshot(config, name, without(snapshot, key));
  const text = snapshot[key];
  const drive = text === undefined ? undefined : parseDrive(key, text);
  if (drive === undefined || isCdrom(drive)) return config;
  return withSnapshot(config, name, addUnused(without(snapshot, key), drive.file));
}

/** Takes the snapshot out; its children, and the present state, hang on its parent from now on. */
export function finishSnapshotDelete(
  config: VmConfig,
  name: string,
  options: { readonly unused: readonly string[]; readonly expected: GuestLock },
): VmConfig {
  requireLock(config, options.expected);
  const parent = requireSnapshot(config, name)["parent"];
  const relink = (values: VmValues): VmValues => {
    if (values["parent"] !== name) return values;
    return parent === undefined ? without(values, "parent") : { ...values, parent };
  };
  const others = Object.entries(config.snapshots).filter(([other]) => other !== name);
  const snapshots = Object.fromEntries(others.map(([other, values]) => [other, relink(values)]));
  const used = new Set(
    [config.values, config.pending].flatMap((each) => listDrives(each).map(({ drive }) => drive.file)),
  );
  const values = options.unused
    .filter((volid) => !used.has(volid))
    .reduce(addUnused, without(relink(config.values), "lock"));
  return { ...config, values, snapshots };
}

/** The snapshot to go back to, or PVE's text: a template goes nowhere. */
export function rollbackTarget(config: VmConfig, name: string): VmValues {
  if (isTemplate(config)) throw refuse("request.invalid", "you can't rollback if vm is a template");
  return requireSnapshot(config, name);
}

/** The checks a rollback makes before it stops the guest. */
export function checkRollbackPossible(config: VmConfig, name: string): VmValues {
  const snapshot = requireComplete(config, name);
  checkLock(config);
  return snapshot;
}

function requireComplete(config: VmConfig, name: string): VmValues {
  const snapshot = rollbackTarget(config, name);
  const state = snapshot["snapstate"];
  if (state !== undefined)
    throw refuse("object.conflict", `unable to rollback to incomplete snapshot (snapstate = ${state})`);
  return snapshot;
}

export function beginRollback(config: VmConfig, name: string): VmConfig {
  checkRollbackPossible(config, name);
  return setLock(config, "rollback");
}

/**
 * The snapshot's configuration becomes the present one. Description and unused volumes stay; volumes that only the
 * present configuration names become unused; pending changes are dropped.
 */
export function finishRollback(
  config: VmConfig,
  name: string,
  options: { readonly newUuid: () => string },
): { readonly config: VmConfig; readonly start: StartFromState | undefined } {
  const snapshot = requireComplete(config, name);
  if (!hasLock(config, "rollback")) throw refuse("object.conflict", "got wrong lock");
  const oldMachine = config.values["machine"];
  // A disk that waits to be attached has its volume already.
  const left = [...strangers(config.values, snapshot), ...strangers(config.pending, snapshot)];
  const kept = Object.entries(left.reduce(addUnused, config.values)).filter(
    ([key]) => key === "description" || /^unused\d+$/.test(key),
  );
  let values: VmValues = { ...Object.fromEntries(kept), ...copyable(snapshot), parent: name };
  const vmstate = snapshot["vmstate"];
  const running = snapshot["runningmachine"];
  // Snapshots of old releases did not say which machine ran; theirs was this one.
  const machineType = values["machine"] === undefined ? undefined : machineOf(values["machine"]);
  const machine = running ?? machineType ?? "pc-i440fx-1.4";
  if (running === undefined && vmstate !== undefined && oldMachine === undefined)
    values = without(values, "machine");
  values = without(values, "runningmachine", "running-nets-host-mtu");
  if (running !== undefined) values = without(values, "runningcpu");
  // A guest that went back in time must not believe it is the same generation.
  if (values["vmgenid"] !== undefined && values["vmgenid"] !== "0")
    values = { ...values, vmgenid: options.newUuid() };
  const cpu = running === undefined ? undefined : snapshot["runningcpu"];
  const netsHostMtu = snapshot["running-nets-host-mtu"];
  const start =
    vmstate === undefined
      ? undefined
      : {
          vmstate,
          machine,
          ...given({ cpu, netsHostMtu }),
        };
  return { config: { ...config, values, pending: {}, special: {} }, start };
}

export interface SnapshotRow {
  readonly name: string;
  readonly description: string;
  readonly parent?: string;
  readonly snaptime?: number;
  readonly vmstate?: boolean;
  readonly snapstate?: string;
  readonly digest?: string;
  readonly running?: boolean;
}

/** Rows of `GET …/snapshot`: the snapshots and, last, the present state. */
export function snapshotRows(config: VmConfig, running: boolean): SnapshotRow[] {
  const rows: SnapshotRow[] = Object.entries(config.snapshots).map(([name, values]) => ({
    name,
    description: values["description"] ?? "",
    vmstate: values["vmstate"] !== undefined,
    snaptime: Number(values["snaptime"] ?? 0),
    ...given({ parent: values["parent"], snapstate: values["snapstate"] }),
  }));
  const parent = config.values["parent"];
  rows.push({
    name: "current",
    digest: config.digest,
    running,
    description: "You are here!",
    ...given({ parent }),
  });
  return rows;
}

export function requireSnapshot(config: VmConfig, name: string): VmValues {
  const snapshot = snapshotOf(config, name);
  if (snapshot === undefined) throw refuse("object.not_found", `snapshot '${name}' does not exist`);
  return snapshot;
}

function copyable(values: VmValues): VmValues {
  const entries = Object.entries(values).filter(([key]) => !NOT_COPIED.has(key) && !/^unused\d+$/.test(key));
  return Object.fromEntries(entries);
}

/** Volumes of drives that a snapshot does not have, so that nothing names them once it is rolled back to. */
function strangers(values: VmValues, snapshot: VmValues): string[] {
  // Devices of the host are nobody's volumes.
  const volumes = (each: VmValues) =>
    listDrives(each).flatMap(({ drive }) =>
      isCdrom(drive, true) || drive.file.startsWith("/") ? [] : [drive.file],
    );
  const known = new Set(volumes(snapshot));
  return volumes(values).filter((volid) => !known.has(volid));
}

/** Cloud-init drives that no snapshot has: made anew whenever one is needed, so a rollback removes them. */
export function strayCloudinit(config: VmConfig): string[] {
  return Object.values(config.snapshots)
    .reduce<string[]>(
      (left, snapshot) =>
        left.filter((volid) => !listDrives(snapshot).some(({ drive }) => drive.file === volid)),
      [...listDrives(config.values), ...listDrives(config.pending)].map(({ drive }) => drive.file),
    )
    .filter((volid) => /vm-\d+-cloudinit/.test(volid));
}

function machineOf(text: string): string | undefined {
  return readVmProperty("machine", text, "machine").type;
}

function requireLock(config: VmConfig, expected: GuestLock): void {
  if (!hasLock(config, expected))
    throw refuse("object.conflict", `encountered invalid lock, expected '${expected}'`);
}

function refuse(code: ErrorCode, message: string): AppError {
  return new AppError(code, message, { pveStatus: 500 });
}
