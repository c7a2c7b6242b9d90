// USB devices of a running guest.
import {
  hasPluggableUsb,
  isSpiceUsb,
  plugTablet,
  plugUsb,
  usbDeviceId,
} from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { deviceIds, unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { ignore } from "@gpve/kit/background.ts";
import { usbNodes } from "../start/take-devices.ts";
import { runningInput, runPlan, UNPLUG_TIMEOUT_MS, type LiveWork } from "./guest-devices.ts";

/** False = this guest's devices come and go with a start. `text` undefined removes the device. */
export async function changeUsb(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string | undefined,
): Promise<boolean> {
  if (!hasPluggableUsb(runningInput(work, values))) return false;
  const old = values[key];
  if (old === text) return true;
  if (old !== undefined) await unplug(work, key, old);
  if (text !== undefined) await plug(work, values, key, text);
  return true;
}

async function plug(work: LiveWork, values: VmValues, key: string, text: string): Promise<void> {
  const { host, process } = work;
  const usb = readVmProperty("usb", text, key);
  const xhci = (await deviceIds(process.qmp)).has("xhci");
  const plan = plugUsb(runningInput(work, { ...values, [key]: text }), key, usb, { xhci });
  const files = isSpiceUsb(usb) ? [] : usbNodes(host, usb);
  for (const file of files) await process.allowFile(file);
  try {
    await runPlan(process, plan);
  } catch (err) {
    for (const { path } of files) await process.forbidFile(path);
    throw err;
  }
}

async function unplug({ host, process }: LiveWork, key: string, text: string): Promise<void> {
  const usb = readVmProperty("usb", text, key);
  const id = usbDeviceId(key, usb);
  if ((await deviceIds(process.qmp)).has(id))
    await unplugDevice(process.qmp, id, { timeoutMs: UNPLUG_TIMEOUT_MS });
  if (isSpiceUsb(usb)) {
    const chardev = `usbredirchardev${key.slice("usb".length)}`;
    await process.qmp.raw("chardev-remove", { id: chardev });
    return;
  }
  for (const { path } of usbNodes(host, usb))
    await process
      .forbidFile(path)
      .catch((err: unknown) => ignore(err, "it came after the guest had started"));
}

/** The pointer of a console; `0` takes it away. */
export async function setTablet(work: LiveWork, values: VmValues, text: string | undefined): Promise<void> {
  const { process } = work;
  const isThere = (await deviceIds(process.qmp)).has("tablet");
  if (text === "0") {
    if (isThere) await unplugDevice(process.qmp, "tablet", { timeoutMs: UNPLUG_TIMEOUT_MS });
  } else if (!isThere) await runPlan(process, plugTablet(runningInput(work, values)));
}
