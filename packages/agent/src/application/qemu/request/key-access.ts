// Who may set which key of a VM's configuration.
import { parameterError } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { privilegesForChange, rootOnlyError } from "@gpve/domain/vm/change/change-privileges.ts";
import { keyKind } from "@gpve/domain/vm/config/keys.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { requireTagAccess, storedTags, type TagRules } from "@gpve/domain/vm/config/tags.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface KeyAccessPorts {
  readonly configs: VmConfigs;
}

/** Every key has its own privilege; the first that is missing is named. */
export function checkPrivileges(
  vmid: number,
  /** undefined = there is no VM yet. */
  before: Readonly<Record<string, string>> | undefined,
  set: Readonly<Record<string, string>>,
  removed: readonly string[],
  ctx: RequestContext,
): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  for (const key of [...Object.keys(set), ...removed]) {
    const value = set[key];
    const oldValue = before?.[key];
    const change = privilegesForChange(key, {
      vmid,
      ...given({ value, oldValue }),
      isNew: before === undefined,
    });
    for (const { path, privileges, mode } of change.needs ?? []) ctx.access.require(path, privileges, mode);
    if (change.kind === "root-only") throw rootOnlyError(change);
  }
}

/** Models of the cluster are known only here: the schema takes any name. */
export function checkCpuModel(host: KeyAccessPorts, { cpu }: VmValues): void {
  const model = cpu === undefined ? "" : (readVmProperty("cpu", cpu, "cpu").cputype ?? "");
  if (!model.startsWith("custom-")) return;
  const name = model.slice("custom-".length);
  if (!host.configs.hasCpuModel(name))
    throw parameterError({ cpu: `invalid format - Custom cputype '${name}' not found\n` });
}

const DEVICES = ["usb", "hostpci", "rng0", "virtiofs"] as const;

/** What a copy of a VM uses of others: networks, devices, directories, CPU models, drives of the host. */
export function checkCopiedKeys(vmid: number, values: VmValues, ctx: RequestContext): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  requireUsed(vmid, values, ["ide", "sata", "scsi"], ctx);
  const storage = values["vmstatestorage"];
  if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  for (const kinds of [DEVICES, ["net"], ["cpu"]]) requireUsed(vmid, values, kinds, ctx);
}

/** The same of a VM that comes out of an archive: what its owner once had may not be for who restores it. */
export function checkRestoredKeys(vmid: number, values: VmValues, ctx: RequestContext): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  for (const kinds of [["net"], DEVICES]) requireUsed(vmid, values, kinds, ctx);
}

function requireUsed(vmid: number, values: VmValues, kinds: readonly string[], ctx: RequestContext): void {
  for (const [key, value] of Object.entries(values)) {
    if (!kinds.includes(keyKind(key))) continue;
    const change = privilegesForChange(key, { vmid, value, isNew: true });
    if (change.kind === "root-only") throw rootOnlyError(change);
    for (const { path, privileges, mode } of change.needs)
      if (!path.startsWith("/vms/")) ctx.access.require(path, privileges, mode);
  }
}

/** Tags as they are stored, once the caller may have them; nothing where the request says nothing about them. */
export function checkedTags(
  host: KeyAccessPorts,
  { tags }: VmValues,
  before: string | undefined,
  ctx: RequestContext,
): { tags?: string } {
  if (tags === undefined) return {};
  const { configs } = host;
  const rules: TagRules = {
    style: configs.datacenterOption("tag-style"),
    registered: configs.datacenterOption("registered-tags"),
    access: configs.datacenterOption("user-tag-access"),
  };
  const seen = (): string[] =>
    configs
      .tagsInUse()
      .flatMap((guest) => (ctx.access.has(`/vms/${guest.vmid}`, ["VM.Audit"]) ? [guest.tags] : []));
  requireTagAccess(before, tags, rules, ctx.access, seen);
  return { tags: storedTags(tags, rules) };
}
