// What PVE fills in when a VM is created or cloned.
import type { GuestArch } from "../argv/host-facts.ts";
import { defaultBootDevices } from "../config/boot-order.ts";
import { pinnedMachine } from "./new-machine.ts";
import { keepNumberText } from "../config/number-text.ts";
import type { NetDevice } from "../config/property-types.ts";
import type { VmValues } from "../config/vm-config.ts";
import { printBootDevices, printVmProperty, readVmProperty } from "../config/vm-properties.ts";

export interface NewVmFacts {
  readonly newUuid: () => string;
  readonly newMac: () => string;
  /** Of the QEMU that created it, `10.1.2`. */
  readonly qemuVersion: string;
  /** Unix seconds. */
  readonly now: number;
  /** Of the guest; x86_64 where nothing else is said. */
  readonly arch?: GuestArch;
}

/** The values of a created VM: boot order, identity, MAC addresses, where the client gave none. */
export function newVmValues(values: VmValues, facts: NewVmFacts): VmValues {
  const result: Record<string, string> = { ...values };
  for (const [key, text] of Object.entries(values)) {
    if (/^net\d+$/.test(key)) result[key] = withMac(text, facts.newMac);
  }
  // `1` asks for one; `0` for none.
  const generation = result["vmgenid"];
  // ARM machines have no device for it.
  if ((generation === undefined || generation === "1") && facts.arch !== "aarch64")
    result["vmgenid"] = facts.newUuid();
  // Who says something of it says everything: clients compare what they find with what they wrote.
  result["smbios1"] ??= printVmProperty("smbios1", { uuid: facts.newUuid() });
  // Without a QEMU to ask, the first start takes the machine of its own QEMU.
  const made = /^\d+\.\d+/.test(facts.qemuVersion) ? { "creation-qemu": facts.qemuVersion } : {};
  result["meta"] = printVmProperty("meta", { ...made, ctime: facts.now });
  const machine = pinnedMachine(result["machine"], result["ostype"], facts.qemuVersion);
  if (machine !== undefined) result["machine"] = machine;
  result["boot"] ??= printBootDevices(defaultBootDevices(result));
  return result;
}

/** A NIC's text with a MAC address; one that has it keeps it. */
export function withMac(text: string, newMac: () => string): string {
  const net: NetDevice = readVmProperty("net", text, "net");
  const printed = printVmProperty("net", net.macaddr === undefined ? { ...net, macaddr: newMac() } : net);
  return keepNumberText(text, printed);
}

/** The values of a clone: nothing of the original's history, an identity of its own. */
export function cloneValues(
  values: VmValues,
  facts: Pick<NewVmFacts, "newUuid" | "newMac"> & { readonly vmid: number; readonly name?: string },
): VmValues {
  const result: Record<string, string> = {};
  for (const [key, text] of Object.entries(values)) {
    if (/^unused\d+$/.test(key) || DROPPED_BY_CLONES.has(key)) continue;
    result[key] = text;
    if (/^net\d+$/.test(key))
      result[key] = keepNumberText(
        text,
        printVmProperty("net", { ...readVmProperty("net", text, key), macaddr: facts.newMac() }),
      );
  }
  const smbios = result["smbios1"];
  result["smbios1"] = printVmProperty("smbios1", {
    ...(smbios === undefined ? {} : readVmProperty("smbios1", smbios, "smbios1")),
    uuid: facts.newUuid(),
  });
  if (result["vmgenid"] !== undefined && result["vmgenid"] !== "0") result["vmgenid"] = facts.newUuid();
  const original = values["name"];
  result["name"] =
    facts.name ?? (original === undefined ? `Copy-of-VM-${facts.vmid}` : `Copy-of-VM-${original}`);
  return result;
}

const DROPPED_BY_CLONES = new Set([
  "lock",
  "parent",
  "template",
  "snaptime",
  "snapstate",
  "vmstate",
  "runningmachine",
  "runningcpu",
  "running-nets-host-mtu",
]);
