// What taking, deleting and rolling back a snapshot do to the configuration. Pure: every function takes the
// configuration as it is and returns the next one, or refuses with PVE's text.
//
//   (none) --prepare--> snapstate prepare --commit--> (complete) --markDeleting--> snapstate delete --finish--> (gone)
//   lock snapshot      ^^^^^^^^^^^^^^^^^^            lock snapshot-delete          ^^^^^^^^^^^^^^^^
import { given } from "@gpve/contracts/given.ts";
import { AppError, type ErrorCode } from "@gpve/contracts/errors.ts";
import { snapshotOf, without, withSnapshot, type GuestConfig, type GuestValues } from "../guest-config.ts";
import { checkLock, hasLock, isTemplate, setLock, type GuestLock } from "../guest-lock.ts";
import type { SavedState, SnapshotRules } from "./snapshot-rules.ts";

type Rules = Pick<SnapshotRules<unknown>, "volumes" | "named" | "kept" | "addUnused">;

export interface SnapshotRequest {
  readonly name: string;
  readonly description?: string;
  /** Unix seconds. */
  readonly snaptime: number;
  readonly state?: SavedState;
}

const NOT_COPIED = new Set(["snapstate", "snaptime", "vmstate", "lock", "digest", "description"]);

export function checkSnapshotPossible(config: GuestConfig, name: string, hasFeature: boolean): void {
  if (isTemplate(config)) throw refuse("request.invalid", "you can't take a snapshot if it's a template");
  checkLock(config);
  if (snapshotOf(config, name) !== undefined)
    throw refuse("object.exists", `snapshot name '${name}' already used`);
  if (!hasFeature) throw refuse("feature.unsupported", "snapshot feature is not available");
}

/** Locks the VM and records the snapshot as being made. */
export function prepareSnapshot(config: GuestConfig, request: SnapshotRequest): GuestConfig {
  checkSnapshotPossible(config, request.name, true);
  const values = { ...config.values, lock: "snapshot" };
  const snapshots: Record<string, GuestValues> = {};
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
export function commitSnapshot(config: GuestConfig, name: string): GuestConfig {
  if (!hasLock(config, "snapshot")) throw refuse("object.conflict", "missing snapshot lock");
  const snapshot = requireSnapshot(config, name);
  if (snapshot["snapstate"] !== "prepare") throw refuse("object.conflict", "wrong snapshot state");
  const values = { ...without(config.values, "lock"), parent: name };
  return withSnapshot({ ...config, values }, name, without(snapshot, "snapstate"));
}

export function lockForSnapshotDelete(config: GuestConfig, name: string): GuestConfig {
  requireSnapshot(config, name);
  return setLock(config, "snapshot-delete");
}

/** `expected` is the lock held: `snapshot` when a failed creation is cleaned up. */
export function markSnapshotDeleting(config: GuestConfig, name: string, expected: GuestLock): GuestConfig {
  requireLock(config, expected);
  if (isTemplate(config)) throw refuse("request.invalid", "you can't delete a snapshot if vm is a template");
  return withSnapshot(config, name, { ...requireSnapshot(config, name), snapstate: "delete" });
}

/** One volume's snapshot (or the saved RAM) is gone: the snapshot no longer names it. */
export function removeSnapshotVolume(
  rules: Rules,
  config: GuestConfig,
  name: string,
  key: string,
  expected: GuestLock,
): GuestConfig {
  requireLock(config, expected);
  const snapshot = requireSnapshot(config, name);
  if (key === "vmstate") return withSnapshot(config, name, without(snapshot, key));
  const volume = rules.volumes(snapshot).find((each) => each.key === key);
  if (volume === undefined) return config;
  return withSnapshot(config, name, rules.addUnused(without(snapshot, key), volume.volid));
}

/** Takes the snapshot out; its children, and the present state, hang on its parent from now on. */
export function finishSnapshotDelete(
  rules: Rules,
  config: GuestConfig,
  name: string,
  options: { readonly unused: readonly string[]; readonly expected: GuestLock },
): GuestConfig {
  requireLock(config, options.expected);
  const parent = requireSnapshot(config, name)["parent"];
  const relink = (values: GuestValues): GuestValues => {
    if (values["parent"] !== name) return values;
    return parent === undefined ? without(values, "parent") : { ...values, parent };
  };
  const others = Object.entries(config.snapshots).filter(([other]) => other !== name);
  const snapshots = Object.fromEntries(others.map(([other, values]) => [other, relink(values)]));
  const used = new Set([config.values, config.pending].flatMap((each) => rules.named(each)));
  const values = options.unused
    .filter((volid) => !used.has(volid))
    .reduce((each, volid) => rules.addUnused(each, volid), without(relink(config.values), "lock"));
  return { ...config, values, snapshots };
}

/** The snapshot to go back to, or PVE's text: a template goes nowhere. */
export function rollbackTarget(config: GuestConfig, name: string): GuestValues {
  if (isTemplate(config)) throw refuse("request.invalid", "you can't rollback if vm is a template");
  return requireSnapshot(config, name);
}

/** The checks a rollback makes before it stops the guest. */
export function checkRollbackPossible(config: GuestConfig, name: string): GuestValues {
  const snapshot = requireComplete(config, name);
  checkLock(config);
  return snapshot;
}

function requireComplete(config: GuestConfig, name: string): GuestValues {
  const snapshot = rollbackTarget(config, name);
  const state = snapshot["snapstate"];
  if (state !== undefined)
    throw refuse("object.conflict", `unable to rollback to incomplete snapshot (snapstate = ${state})`);
  return snapshot;
}

export function beginRollback(config: GuestConfig, name: string): GuestConfig {
  checkRollbackPossible(config, name);
  return setLock(config, "rollback");
}

/**
 * The snapshot's configuration becomes the present one. Description and unused volumes stay; volumes that only the
 * present configuration names become unused; pending changes are dropped.
 */
export function finishRollback<Start>(
  rules: SnapshotRules<Start>,
  config: GuestConfig,
  name: string,
  options: { readonly newUuid: () => string },
): { readonly config: GuestConfig; readonly start: Start | undefined } {
  const snapshot = requireComplete(config, name);
  if (!hasLock(config, "rollback")) throw refuse("object.conflict", "got wrong lock");
  // A disk that waits to be attached has its volume already.
  const left = [...strangers(rules, config.values, snapshot), ...strangers(rules, config.pending, snapshot)];
  const kept = Object.entries(
    left.reduce((each, volid) => rules.addUnused(each, volid), config.values),
  ).filter(([key]) => key === "description" || /^unused\d+$/.test(key));
  const { values, start } = rules.goBack({
    before: config.values,
    values: { ...Object.fromEntries(kept), ...copyable(snapshot), parent: name },
    snapshot,
    newUuid: options.newUuid,
  });
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
export function snapshotRows(config: GuestConfig, running: boolean): SnapshotRow[] {
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

export function requireSnapshot(config: GuestConfig, name: string): GuestValues {
  const snapshot = snapshotOf(config, name);
  if (snapshot === undefined) throw refuse("object.not_found", `snapshot '${name}' does not exist`);
  return snapshot;
}

function copyable(values: GuestValues): GuestValues {
  const entries = Object.entries(values).filter(([key]) => !NOT_COPIED.has(key) && !/^unused\d+$/.test(key));
  return Object.fromEntries(entries);
}

/** Volumes that a snapshot does not have, so that nothing names them once it is rolled back to. */
function strangers(rules: Rules, values: GuestValues, snapshot: GuestValues): string[] {
  const known = new Set(rules.kept(snapshot));
  return rules.kept(values).filter((volid) => !known.has(volid));
}

function requireLock(config: GuestConfig, expected: GuestLock): void {
  if (!hasLock(config, expected))
    throw refuse("object.conflict", `encountered invalid lock, expected '${expected}'`);
}

function refuse(code: ErrorCode, message: string): AppError {
  return new AppError(code, message, { pveStatus: 500 });
}
