// Pending changes: everything a client sets goes here first, then what can be applied now moves to the main section.
import { given } from "@gpve/contracts/given.ts";
import { splitList } from "../../schema/list.ts";
import { detachDrive } from "../config/drive.ts";
import { isDriveKey } from "../config/keys.ts";
import type { VmConfig, VmValues } from "../config/vm-config.ts";
import { without } from "../../guest/guest-config.ts";

/** Keys to remove at the next start -> whether their volume goes too (`!key`). */
export function pendingDeletes(config: VmConfig): ReadonlyMap<string, { readonly force: boolean }> {
  const entries = splitList(config.pending["delete"] ?? "").map((item): [string, { force: boolean }] =>
    item.startsWith("!") ? [item.slice(1), { force: true }] : [item, { force: false }],
  );
  return new Map(entries);
}

function withDeletes(config: VmConfig, deletes: ReadonlyMap<string, { readonly force: boolean }>): VmConfig {
  const rest = without(config.pending, "delete");
  if (deletes.size === 0) return { ...config, pending: rest };
  const list = [...deletes.keys()].sort().map((key) => (deletes.get(key)?.force === true ? `!${key}` : key));
  return { ...config, pending: { ...rest, delete: list.join(",") } };
}

/** Stages a new value; a staged removal of the key is forgotten. */
export function stageValue(config: VmConfig, key: string, value: string): VmConfig {
  const deletes = new Map(pendingDeletes(config));
  deletes.delete(key);
  const staged = withDeletes(config, deletes);
  return { ...staged, pending: { ...staged.pending, [key]: value } };
}

/** Stages the removal of a key; a staged value is forgotten. */
export function stageDelete(config: VmConfig, key: string, force = false): VmConfig {
  const deletes = new Map(pendingDeletes(config));
  deletes.set(key, { force: force || deletes.get(key)?.force === true });
  const staged = withDeletes(config, deletes);
  return { ...staged, pending: without(staged.pending, key) };
}

/** Forgets what was staged for a key. */
export function revertPending(config: VmConfig, key: string): VmConfig {
  const deletes = new Map(pendingDeletes(config));
  deletes.delete(key);
  const reverted = withDeletes(config, deletes);
  return { ...reverted, pending: without(reverted.pending, key) };
}

/** Drops staged changes that change nothing: values as they are, removals of keys that are not set. */
export function cleanupPending(config: VmConfig): VmConfig {
  const same = Object.keys(config.pending).filter(
    (key) => key !== "delete" && config.pending[key] === config.values[key],
  );
  const deletes = new Map([...pendingDeletes(config)].filter(([key]) => Object.hasOwn(config.values, key)));
  const cleaned = withDeletes(config, deletes);
  return { ...cleaned, pending: without(cleaned.pending, ...same) };
}

/** Moves one staged change into the main section. A detached disk's volume becomes unused. */
export function applyPending(config: VmConfig, key: string): VmConfig {
  const staged = config.pending[key];
  const removal = pendingDeletes(config).get(key);
  const done = revertPending(config, key);
  if (removal !== undefined) {
    const detach = isDriveKey(key) && !removal.force;
    return { ...done, values: detach ? detachDrive(done.values, key) : without(done.values, key) };
  }
  if (staged === undefined) return config;
  const values = replacesVolume(done.values, key, staged) ? detachDrive(done.values, key) : done.values;
  return { ...done, values: { ...values, [key]: staged } };
}

/** Applies everything staged, as a start of the stopped VM does. */
export function applyAllPending(config: VmConfig): VmConfig {
  const keys = [
    ...pendingDeletes(config).keys(),
    ...Object.keys(config.pending).filter((key) => key !== "delete"),
  ];
  return keys.reduce(applyPending, config);
}

/** The configuration with what is staged, as `GET config` shows it. */
export function effectiveValues(config: VmConfig): VmValues {
  const merged = { ...config.values, ...without(config.pending, "delete") };
  return without(merged, ...pendingDeletes(config).keys());
}

export interface PendingRow {
  readonly key: string;
  readonly value?: string;
  readonly pending?: string;
  /** 1, or 2 when the volume goes too. */
  readonly delete?: 1 | 2;
}

/** Rows of `GET pending`. */
export function pendingRows(config: VmConfig): PendingRow[] {
  const deletes = pendingDeletes(config);
  const staged = without(config.pending, "delete");
  const keys = new Set([...Object.keys(config.values), ...Object.keys(staged), ...deletes.keys()]);
  return [...keys].sort().map((key) => {
    const value = masked(key, config.values[key]);
    const pending = masked(key, staged[key]);
    const removal = deletes.get(key);
    return {
      key,
      ...given({ value, pending }),
      ...(removal === undefined ? {} : { delete: removal.force ? 2 : 1 }),
    };
  });
}

export const MASKED = "**********";

export function masked(key: string, value: string | undefined): string | undefined {
  return key === "cipassword" && value !== undefined ? MASKED : value;
}

function replacesVolume(values: VmValues, key: string, next: string): boolean {
  const old = values[key];
  if (old === undefined || !isDriveKey(key)) return false;
  return old.split(",")[0] !== next.split(",")[0];
}
