// One `PUT`/`POST config` request: what it sets, deletes and reverts, checked against itself and the configuration.
import { conflict, parameterError, refused } from "../../request/failures.ts";
import { splitList } from "../../schema/list.ts";
import { configText } from "../config/api-config.ts";
import { checkLock, hasLock } from "../../guest/guest-lock.ts";
import { clusterBridgeRefusal, isClusterBridge } from "../../vcluster/cluster-bridge.ts";
import { vmKeySchema } from "../config/keys.ts";
import { revertPending, stageDelete, stageValue } from "./pending.ts";
import type { VmConfig } from "../config/vm-config.ts";
import { listNets } from "../config/vm-network.ts";
import { memoryMiB } from "../config/vm-properties.ts";

/** The most that a cgroup takes as its weight. */
export const MOST_CPU_UNITS = 10_000;

export interface ConfigUpdate {
  /** Key -> text as the file holds it; `cdrom` is already `ide2`. */
  readonly set: Readonly<Record<string, string>>;
  readonly delete: readonly string[];
  readonly revert: readonly string[];
  readonly digest: string | undefined;
  /** Volumes of deleted disks are destroyed, not kept as unused. */
  readonly force: boolean;
  readonly skiplock: boolean;
  readonly backgroundDelaySeconds: number | undefined;
}

/** Reads validated parameters of the call; throws what PVE answers to contradictions. */
export function readConfigUpdate(
  params: Readonly<Record<string, unknown>>,
  options: { readonly mayBeEmpty?: boolean } = {},
): ConfigUpdate {
  const set: Record<string, string> = {};
  for (const [key, value] of Object.entries(params)) {
    if (vmKeySchema(key) === undefined) continue;
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean")
      set[key] = configText(value);
  }
  const cdrom = set["cdrom"];
  if (cdrom !== undefined) {
    delete set["cdrom"];
    set["ide2"] = cdrom.includes("media=") ? cdrom : `${cdrom},media=cdrom`;
  }
  const units = set["cpuunits"];
  if (units !== undefined) set["cpuunits"] = String(Math.min(Number(units), MOST_CPU_UNITS));
  const update: ConfigUpdate = {
    set,
    delete: keyList(params, "delete"),
    revert: keyList(params, "revert"),
    digest: typeof params["digest"] === "string" ? params["digest"] : undefined,
    force: params["force"] === true,
    skiplock: params["skiplock"] === true,
    backgroundDelaySeconds:
      typeof params["background_delay"] === "number" ? params["background_delay"] : undefined,
  };
  checkAgainstItself(update, options.mayBeEmpty ?? false);
  return update;
}

function keyList(params: Readonly<Record<string, unknown>>, name: "delete" | "revert"): string[] {
  const text = params[name];
  if (typeof text !== "string") return [];
  return splitList(text).map((key) => {
    const real = key === "cdrom" ? "ide2" : key;
    if (vmKeySchema(real) === undefined) throw parameterError({ [name]: `unknown option '${key}'` });
    return real;
  });
}

function checkAgainstItself(update: ConfigUpdate, mayBeEmpty: boolean): void {
  for (const key of update.delete) {
    if (Object.hasOwn(update.set, key))
      throw parameterError({ delete: `you can't use '-${key}' and -delete ${key}' at the same time` });
  }
  for (const key of update.revert) {
    if (update.delete.includes(key))
      throw parameterError({
        revert: `you can't use '-delete ${key}' and -revert ${key}' at the same time`,
      });
    // Under `delete`, and with the stray quote: clients see what PVE says.
    if (Object.hasOwn(update.set, key))
      throw parameterError({ delete: `you can't use '-${key}' and -revert ${key}' at the same time` });
  }
  for (const { key, net } of listNets(update.set)) {
    if (isClusterBridge(net.bridge ?? ""))
      throw parameterError({ [key]: clusterBridgeRefusal(net.bridge ?? "") });
  }
  const nothing = Object.keys(update.set).length + update.delete.length + update.revert.length === 0;
  if (nothing && !mayBeEmpty) throw refused("no options specified");
}

/** A request as PVE writes it to the log of its task. */
export function updateText(update: ConfigUpdate): string {
  const { set, force, skiplock } = update;
  const words: Record<string, string> = { ...set };
  if (set["cipassword"] !== undefined) words["cipassword"] = "<hidden>";
  for (const list of ["delete", "revert"] as const)
    if (update[list].length > 0) words[list] = update[list].join(",");
  for (const [name, flag] of Object.entries({ force, skiplock })) if (flag) words[name] = "1";
  return Object.keys(words)
    .toSorted()
    .map((key) => `-${key} ${words[key]}`)
    .join(" ");
}

/** Keys to be deleted that are not there. */
export function notSet(config: VmConfig, update: ConfigUpdate): readonly string[] {
  return update.delete.filter(
    (key) => !Object.hasOwn(config.values, key) && !Object.hasOwn(config.pending, key),
  );
}

/** Refuses to build on a configuration that another client changed meanwhile. */
export function checkDigest(config: VmConfig, digest: string | undefined): void {
  if (digest !== undefined && digest !== "" && digest !== config.digest)
    throw conflict("checksum mismatch (file change by other user?)");
}

/** A guest cannot be left more memory than it has. Asked only of requests that change either. */
export function checkBalloon(config: VmConfig, { set }: Pick<ConfigUpdate, "set">): void {
  if (set["memory"] === undefined && set["balloon"] === undefined) return;
  const values = { ...config.values, ...config.pending, ...set };
  if (Number(values["balloon"] ?? 0) <= memoryMiB(values["memory"])) return;
  throw refused("balloon value too large (must be smaller than assigned memory)");
}

/** What a suspended VM is to go on from is thrown away: the lock and all that belongs to it go with it. */
export function withDiscardedState(config: VmConfig, update: ConfigUpdate): ConfigUpdate {
  if (!update.delete.includes("vmstate")) return update;
  const more = ["runningmachine", "runningcpu", "running-nets-host-mtu"].filter((key) =>
    Object.hasOwn(config.values, key),
  );
  const suspended = hasLock(config, "suspended");
  return {
    ...update,
    delete: [...update.delete, ...more, ...(suspended ? ["lock"] : [])],
    skiplock: update.skiplock || suspended,
  };
}

/** Moves the request into [PENDING]. What of it can take effect now is decided after (hotplug.ts). */
export function stageUpdate(config: VmConfig, update: ConfigUpdate): VmConfig {
  checkDigest(config, update.digest);
  if (!update.skiplock) checkLock(config);
  checkBalloon(config, update);
  let staged = config;
  for (const key of update.revert) staged = revertPending(staged, key);
  for (const key of update.delete) {
    const known = Object.hasOwn(staged.values, key) || Object.hasOwn(staged.pending, key);
    // Terraform deletes whole ranges of keys; those that are not set are no error.
    if (known) staged = stageDelete(staged, key, update.force);
  }
  for (const [key, value] of Object.entries(update.set)) staged = stageValue(staged, key, value);
  return staged;
}
