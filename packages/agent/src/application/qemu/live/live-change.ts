// A changed key reaches the running guest, or waits for its next start.
import { refused } from "@gpve/domain/request/failures.ts";
import { vmBounds } from "@gpve/domain/vm/running/vm-bounds.ts";
import { parseDrive } from "@gpve/domain/vm/config/drive.ts";
import { driveChange, hotplugClass, netChange } from "@gpve/domain/vm/change/hotplug.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readHotplug, readVmProperty, type HotplugFeature } from "@gpve/domain/vm/config/vm-properties.ts";
import { readNet } from "@gpve/domain/vm/config/vm-network.ts";
import type { LiveWork } from "./guest-devices.ts";
import { changeMedia, plugLiveDrive, setThrottle, unplugLiveDrive } from "./live-drives.ts";
import { changeNet, plugLiveNet, unplugLiveNet } from "./live-nets.ts";
import { changeUsb, setTablet } from "./live-usb.ts";
import { setBalloon, setCpus, setMemory } from "./live-size.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";

export type LiveOutcome = "applied" | "pending";

/** `values` is what the guest runs with, `text` what it shall have; undefined removes the key. Throws when QEMU or the guest refuses. */
export async function changeLive(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string | undefined,
): Promise<LiveOutcome> {
  if (hotplugClass(key) === "immediate") return "applied";
  // Its devices are on no bus that they could leave.
  if ((work.process.note as { machine?: string } | undefined)?.machine === "microvm") return "pending";
  if (text !== undefined) work.process.raiseBounds(vmBounds({ ...values, [key]: text }));
  const features = readHotplug(values["hotplug"]);
  if (isDriveKey(key)) return changeDrive(work, values, key, text, features);
  if (/^net\d+$/.test(key)) return changeNic(work, values, key, text, features);
  if (/^usb\d+$/.test(key)) {
    if (!features.has("usb")) return "pending";
    return (await changeUsb(work, values, key, text)) ? "applied" : "pending";
  }
  switch (key) {
    case "vcpus":
      if (!features.has("cpu")) return "pending";
      await setCpus(work, values, text);
      return "applied";
    case "memory":
      // Huge pages are reserved at the start.
      if (!features.has("memory") || text === undefined || values["hugepages"] !== undefined)
        return "pending";
      await setMemory(work, values, text);
      return "applied";
    case "balloon":
      // The device itself comes and goes with a start.
      if (values["balloon"] === "0" || text === "0") return "pending";
      // With shares, it is what is left to a guest when the host runs short; without, it is what the guest gets.
      if (text === undefined || values["shares"] === "0") await setBalloon(work, values, text);
      return "applied";
    case "tablet":
      if (!features.has("usb")) return "pending";
      await setTablet(work, values, text);
      return "applied";
    case "agent":
      return isSameAgent(values["agent"], text) ? "applied" : "pending";
    case "hotplug":
      return changesLayout(values["hotplug"], text) ? "pending" : "applied";
    default:
      return "pending";
  }
}

/** Only what is done for clones changes without a start. */
function isSameAgent(before: string | undefined, after: string | undefined): boolean {
  if (before === undefined || after === undefined) return false;
  const [old, next] = [before, after].map((text) => {
    const { fstrim_cloned_disks: _trim, ...rest } = readVmProperty("agent", text, "agent");
    return JSON.stringify(Object.entries(rest).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
  return old === next;
}

/** CPU and memory hotplug are part of the machine's layout. */
function changesLayout(before: string | undefined, after: string | undefined): boolean {
  const features = [...readHotplug(before), ...readHotplug(after)];
  return features.includes("cpu") || features.includes("memory");
}

async function changeDrive(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string | undefined,
  features: ReadonlySet<HotplugFeature>,
): Promise<LiveOutcome> {
  const old = values[key];
  const before = old === undefined ? undefined : parseDrive(key, old);
  const after = text === undefined ? undefined : parseDrive(key, text);
  if (before !== undefined && after !== undefined && (before.media ?? "disk") !== (after.media ?? "disk"))
    throw refused("unable to change media type");
  const change = driveChange(key, before, after);
  switch (change) {
    case "none":
      return "applied";
    case "media":
      await changeMedia(work, values, key, text ?? "");
      return "applied";
    case "live":
      await setThrottle(work, key, text ?? "");
      return "applied";
    case "pending":
      return "pending";
    case "plug":
    case "unplug":
    case "replug":
      if (!features.has("disk")) return "pending";
      if (change !== "plug") await unplugLiveDrive(work, values, key);
      if (change !== "unplug") await plugLiveDrive(work, without(values, key), key, text ?? "");
      return "applied";
    default:
      return "pending";
  }
}

async function changeNic(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string | undefined,
  features: ReadonlySet<HotplugFeature>,
): Promise<LiveOutcome> {
  const old = values[key];
  const before = old === undefined ? undefined : readNet(key, old);
  const after = text === undefined ? undefined : readNet(key, text);
  // Between a bridge and QEMU's own network another back end is needed.
  const moves =
    before !== undefined &&
    after !== undefined &&
    (before.bridge === undefined) !== (after.bridge === undefined);
  const change = moves ? "replug" : netChange(before, after);
  // What is behind the card changes without it.
  if (change !== "live" && change !== "none" && !features.has("network")) return "pending";
  if (change === "live") await changeNet(work, values, key, text ?? "");
  if (change === "unplug" || change === "replug") await unplugLiveNet(work, key);
  if (change === "plug" || change === "replug")
    await plugLiveNet(work, without(values, key), key, text ?? "");
  return "applied";
}
