// [special:cloudinit]: what the cloud-init drive was last made from, where it differs from the configuration.
// A changed or removed key keeps its old value there; a key that is new is named in `added`.
import { given } from "@gpve/contracts/given.ts";
import { splitList } from "../../schema/list.ts";
import { keyKind } from "../config/keys.ts";
import { masked } from "../change/pending.ts";
import type { VmConfig, VmValues } from "../config/vm-config.ts";
import { without } from "../../guest/guest-config.ts";

const KINDS = new Set([
  "cicustom",
  "cipassword",
  "citype",
  "ciupgrade",
  "ciuser",
  "ipconfig",
  "name",
  "nameserver",
  "net",
  "searchdomain",
  "sshkeys",
]);

/** Keys that end up on the drive. */
export function isCloudinitKey(key: string): boolean {
  return KINDS.has(keyKind(key));
}

/** Notes that a key changed since the drive was made. `before` and `after` are undefined for an absent key. */
export function recordCloudinitChange(
  config: VmConfig,
  key: string,
  before: string | undefined,
  after: string | undefined,
): VmConfig {
  if (!isCloudinitKey(key) || before === after) return config;
  const state = config.special["cloudinit"] ?? {};
  const recorded = state[key];
  const added = new Set(splitList(state["added"] ?? ""));
  let next = without(state, "added");
  if (recorded !== undefined) {
    // Back to what the drive says: in step again.
    if (after === recorded) next = without(next, key);
  } else if (added.has(key)) {
    if (after === undefined) added.delete(key);
  } else if (before === undefined) added.add(key);
  else next = { ...next, [key]: before };
  if (added.size > 0) next = { ...next, added: [...added].sort().join(",") };
  return withState(config, next);
}

/** The drive was made anew: nothing differs. */
export function clearCloudinitState(config: VmConfig): VmConfig {
  return withState(config, {});
}

export interface CloudinitRow {
  readonly key: string;
  /** On the drive. */
  readonly old?: string;
  /** In the configuration. */
  readonly new?: string;
}

/** Shown in any case; name, interfaces and addresses only when the drive lacks a change of them. */
const ALWAYS_SHOWN = new Set([
  "cicustom",
  "cipassword",
  "citype",
  "ciupgrade",
  "ciuser",
  "nameserver",
  "searchdomain",
  "sshkeys",
]);

/** Cloud-init keys with the drive's and the configuration's value; rows of `GET cloudinit`. */
export function cloudinitRows(config: VmConfig): CloudinitRow[] {
  const state = config.special["cloudinit"] ?? {};
  const added = new Set(splitList(state["added"] ?? ""));
  const set = Object.keys(config.values).filter((key) => ALWAYS_SHOWN.has(key) || added.has(key));
  const keys = new Set([...set, ...Object.keys(state)].filter(isCloudinitKey));
  return [...keys].sort().map((key) => {
    const present = masked(key, config.values[key]);
    const recorded = masked(key, state[key]);
    const old = recorded ?? (added.has(key) ? undefined : present);
    return {
      key,
      ...given({ old, new: present }),
    };
  });
}

function withState(config: VmConfig, state: VmValues): VmConfig {
  const { cloudinit: _old, ...special } = config.special;
  return { ...config, special: Object.keys(state).length === 0 ? special : { ...special, cloudinit: state } };
}
