// The permission checks one change of a VM's configuration asks for. The caller runs them; root@pam skips them.
import { parameterError, refused } from "../../request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isCloudinitVolume, driveFile } from "../config/drive.ts";
import { keyPrivileges } from "./key-privileges.ts";
import { keyKind } from "../config/keys.ts";
import { readVmProperty } from "../config/vm-properties.ts";

export interface PrivilegeNeed {
  /** ACL path. */
  readonly path: string;
  readonly privileges: readonly string[];
  readonly mode: "all" | "any";
}

export type ChangeNeeds =
  | { readonly kind: "checks"; readonly needs: readonly PrivilegeNeed[] }
  /** Nobody but root@pam; the text is PVE's. Who lacks one of `needs` hears that first. */
  | {
      readonly kind: "root-only";
      readonly message: string;
      /** Told as an error of this parameter. */
      readonly parameter?: string;
      readonly needs?: readonly PrivilegeNeed[];
    };

export interface KeyChange {
  readonly vmid: number;
  /** The new text; undefined when the key is removed. */
  readonly value?: string;
  /** The text before, undefined when the key is new. */
  readonly oldValue?: string;
  /** The VM itself is new. */
  readonly isNew?: boolean;
  /** The SDN zone of a bridge or vnet; plain bridges are in `localnetwork`. */
  readonly zoneOf?: (bridge: string) => string;
}

export function privilegesForChange(key: string, change: KeyChange): ChangeNeeds {
  const kind = keyKind(key);
  const rule = Object.hasOwn(keyPrivileges, kind) ? keyPrivileges[kind] : undefined;
  const vm = `/vms/${change.vmid}`;
  if (rule === undefined || "rootOnly" in rule)
    return { kind: "root-only", message: `only root can set '${key}' config` };
  if ("any" in rule) return checks({ path: vm, privileges: rule.any, mode: "any" });
  if ("all" in rule)
    return checks({ path: vm, privileges: rule.all, mode: "all" }, ...furtherNeeds(key, change));
  const values = [change.oldValue, change.value].filter((value) => value !== undefined);
  const parts = values.map((value) => needsOfValue(rule.byValue, key, value, change));
  const refused = parts.find((part) => part.kind === "root-only");
  if (refused !== undefined) return refused;
  return checks(...unique(parts.flatMap((part) => (part.kind === "checks" ? part.needs : []))));
}

/** The error a root-only key gives to everyone else. */
export function rootOnlyError({ message, parameter }: Extract<ChangeNeeds, { kind: "root-only" }>): AppError {
  return parameter === undefined
    ? new AppError("access.denied", message, { pveStatus: 500 })
    : parameterError({ [parameter]: message });
}

function checks(...needs: readonly PrivilegeNeed[]): ChangeNeeds {
  return { kind: "checks", needs };
}

function need(path: string, ...privileges: readonly string[]): PrivilegeNeed {
  return { path, privileges, mode: "all" };
}

/** What values name elsewhere: bridges, mappings, the host's start order. What is let go of is asked for too. */
function furtherNeeds(key: string, change: KeyChange): PrivilegeNeed[] {
  if (key === "startup") return [need("/", "Sys.Modify")];
  if (keyKind(key) === "cpu") return cpuNeeds(change);
  const values = [change.oldValue, change.value].filter((value) => value !== undefined);
  return unique(values.flatMap((value) => namedNeeds(key, value, change)));
}

/** A model that stays may be anybody's: only the rest of the key changes. */
function cpuNeeds({ value, oldValue }: KeyChange): PrivilegeNeed[] {
  const [before, after] = [oldValue, value].map((text) =>
    text === undefined ? undefined : readVmProperty("cpu", text, "cpu").cputype,
  );
  if (after === undefined || after === before || !after.startsWith("custom-")) return [];
  return [need(`/mapping/cpu/${after.slice("custom-".length)}`, "Mapping.Use")];
}

function namedNeeds(key: string, value: string, change: KeyChange): PrivilegeNeed[] {
  switch (keyKind(key)) {
    case "net":
      return networkNeeds(value, change.zoneOf ?? (() => "localnetwork"));
    case "virtiofs":
      return [need(`/mapping/dir/${readVmProperty("virtiofs", value, key).dirid}`, "Mapping.Use")];
    case "rng0":
      return readVmProperty("rng0", value, key).source === "/dev/hwrng"
        ? [need("/mapping/hwrng", "Mapping.Use")]
        : [];
    default:
      return [];
  }
}

function networkNeeds(value: string, zoneOf: (bridge: string) => string): PrivilegeNeed[] {
  const net = readVmProperty("net", value, "net");
  if (net.bridge === undefined) return [];
  const path = `/sdn/zones/${zoneOf(net.bridge)}/${net.bridge}`;
  if (net.tag === undefined && net.trunks === undefined) return [need(path, "SDN.Use")];
  const tags = [...(net.tag === undefined ? [] : [String(net.tag)]), ...trunkTags(net.trunks)];
  return tags.map((tag) => need(`${path}/${tag}`, "SDN.Use"));
}

function trunkTags(trunks: string | undefined): string[] {
  const tags: string[] = [];
  for (const range of (trunks ?? "").split(";").filter((part) => part !== "")) {
    const [first = "0", last = first] = range.split("-");
    for (let tag = Number(first); tag <= Math.min(Number(last), 4094); tag++) tags.push(String(tag));
  }
  return tags;
}

function needsOfValue(
  rule: "drive" | "serial" | "usb" | "hostpci",
  key: string,
  value: string,
  change: KeyChange,
): ChangeNeeds {
  const vm = `/vms/${change.vmid}`;
  switch (rule) {
    case "drive":
      return checks(...driveNeeds(vm, value));
    case "serial":
      if (value === "socket") return checks(need(vm, "VM.Config.HWType"));
      return realDevice(key, change);
    case "usb": {
      const usb = readVmProperty("usb", value, key);
      if (usb.host !== undefined && usb.host.toLowerCase() !== "spice")
        return {
          kind: "root-only",
          message: `only root can set '${key}' config for real devices`,
          needs: [need(vm, "VM.Config.HWType")],
        };
      if (usb.mapping === undefined && usb.host === undefined) throw neitherHostNorMapping();
      const mapped = usb.mapping === undefined ? [] : [need(`/mapping/usb/${usb.mapping}`, "Mapping.Use")];
      return checks(need(vm, "VM.Config.HWType"), ...mapped);
    }
    case "hostpci": {
      const pci = readVmProperty("hostpci", value, key);
      if (pci.host !== undefined)
        return { kind: "root-only", message: `only root can set '${key}' config for non-mapped devices` };
      if (pci.mapping === undefined) throw neitherHostNorMapping();
      const needs = [need(`/mapping/pci/${pci.mapping}`, "Mapping.Use"), need(vm, "VM.Config.HWType")];
      if (pci.romfile !== undefined)
        return {
          kind: "root-only",
          message: "only root@pam can set 'romfile' option",
          parameter: key,
          needs,
        };
      return checks(...needs);
    }
  }
}

function driveNeeds(vm: string, value: string): PrivilegeNeed[] {
  const file = driveFile(value) ?? "";
  if (isCloudinitVolume(file)) return [need(vm, "VM.Config.CDROM"), need(vm, "VM.Config.Cloudinit")];
  const isCd = value.split(",").includes("media=cdrom") || file === "cdrom" || file === "none";
  if (!isCd) return [need(vm, "VM.Config.Disk")];
  // The host's own drive.
  const physical = file === "cdrom" ? [need("/", "Sys.Console")] : [];
  return [need(vm, "VM.Config.CDROM"), ...physical];
}

function realDevice(key: string, change: KeyChange): ChangeNeeds {
  const verb = change.value === undefined ? "delete" : change.isNew === true ? "set" : "modify";
  return { kind: "root-only", message: `only root can ${verb} '${key}' config for real devices` };
}

function neitherHostNorMapping(): AppError {
  return refused("either 'host' or 'mapping' must be set.");
}

function unique(needs: readonly PrivilegeNeed[]): PrivilegeNeed[] {
  return [...new Map(needs.map((each) => [JSON.stringify(each), each])).values()];
}
