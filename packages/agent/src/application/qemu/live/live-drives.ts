// Disks and CD drives of a running guest: plugged, unplugged, their media and limits changed.
import {
  driveNodeArguments,
  plugDrive,
  type PlugPlan,
} from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { throttleGroupId, throttleLimits, topNodeName } from "@gpve/domain/vm/argv/block/block-node.ts";
import { iothreadId, scsiController, splitDriveKey } from "@gpve/domain/vm/argv/block/drive-device.ts";
import { requireDrive } from "@gpve/domain/vm/config/drive.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import { deviceIds, unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { topNodes } from "../disk/top-node.ts";
import { resolveVolumes } from "../start/start-plan.ts";
import {
  attempt,
  objectIds,
  runningInput,
  runPlan,
  UNPLUG_TIMEOUT_MS,
  type LiveWork,
} from "./guest-devices.ts";

/** `values` is the running configuration. */
export async function plugLiveDrive(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string,
): Promise<void> {
  const { host, process } = work;
  const drive = requireDrive(key, text);
  const after = { ...values, [key]: text };
  const volumes = await resolveVolumes(host, { [key]: text });
  const present = { controllers: await deviceIds(process.qmp) };
  const plan = plugDrive(runningInput(work, after, volumes), key, drive, present);
  const objects = await objectIds(process);
  try {
    for (const file of volumes.files) await process.allowFile(file);
    await runPlan(process, withoutKnownObjects(plan, objects));
  } catch (err) {
    await forbid(work, values, [text], key);
    throw err;
  }
}

export async function unplugLiveDrive(work: LiveWork, values: VmValues, key: string): Promise<void> {
  const { process } = work;
  const text = values[key] ?? "";
  const drive = requireDrive(key, text);
  await unplugDevice(process.qmp, key, { timeoutMs: UNPLUG_TIMEOUT_MS });
  await dropNodes(work, key, drive);
  await dropController(work, values, key, drive);
  await forbid(work, without(values, key), [text], key);
}

export async function changeMedia(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string,
): Promise<void> {
  const { host, process } = work;
  const { qmp } = process;
  const old = requireDrive(key, values[key] ?? "");
  const drive = requireDrive(key, text);
  const volumes = await resolveVolumes(host, { [key]: text });
  const after = { ...values, [key]: text };
  const nodes =
    drive.file === "none" ? undefined : driveNodeArguments(runningInput(work, after, volumes), key, drive);
  for (const file of volumes.files) await process.allowFile(file);
  if (old.file === "none") await qmp.execute("blockdev-open-tray", { id: key, force: true });
  else {
    await withTrayOpen(work, key, () => qmp.execute("blockdev-remove-medium", { id: key }));
    await dropNodes(work, key, old);
  }
  if (nodes !== undefined) {
    await runPlan(process, {
      steps: [
        { execute: "object-add", arguments: nodes.throttleGroup },
        { execute: "blockdev-add", arguments: nodes.blockdev },
      ],
      undo: [{ execute: "object-del", arguments: { id: throttleGroupId(key) } }],
    });
    const medium = { id: key, "node-name": topNodeName(key) };
    await withTrayOpen(work, key, () => qmp.execute("blockdev-insert-medium", medium)).catch(
      async (err: unknown) => {
        await dropNodes(work, key, drive).catch((failure: unknown) =>
          ignore(failure, "what failed first says more"),
        );
        throw err;
      },
    );
  }
  await qmp.execute("blockdev-close-tray", { id: key });
  await forbid(work, after, [values[key] ?? ""], "");
}

const TRAY_TRIES = 10;

/** A guest that looks for a medium just now, as every guest does at its start, closes the tray under our hands. */
async function withTrayOpen(
  { process: { qmp } }: LiveWork,
  key: string,
  work: () => Promise<unknown>,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    await qmp.execute("blockdev-open-tray", { id: key, force: true });
    try {
      await work();
      return;
    } catch (err) {
      if (tries === TRAY_TRIES || !messageOf(err).includes("is not open")) throw err;
    }
  }
}

const LIMIT_NAMES = ["bps", "iops"].flatMap((unit) =>
  ["total", "read", "write"].map((direction) => `${unit}-${direction}`),
);

/** Limits that are not named keep their old value in QEMU, so all are. */
export async function setThrottle({ process }: LiveWork, key: string, text: string): Promise<void> {
  const unlimited = Object.fromEntries(
    LIMIT_NAMES.flatMap((name) => [
      [name, 0],
      [`${name}-max`, 0],
      [`${name}-max-length`, 1],
    ]),
  );
  await process.qmp.execute("qom-set", {
    path: `/objects/${throttleGroupId(key)}`,
    property: "limits",
    value: { ...unlimited, ...throttleLimits(requireDrive(key, text)) },
  });
}

function withoutKnownObjects(plan: PlugPlan, known: ReadonlySet<string>): PlugPlan {
  // An iothread may have been left behind by a controller its guest never let go of.
  const stays = (step: PlugPlan["steps"][number]): boolean =>
    !step.execute.startsWith("object-") || !known.has(step.arguments["id"] as string);
  return { steps: plan.steps.filter(stays), undo: plan.undo.filter(stays) };
}

async function dropNodes({ process }: LiveWork, key: string, drive: Drive): Promise<void> {
  if (drive.file === "none") return;
  for (const top of await topNodes(process, key))
    await process.qmp.execute("blockdev-del", { "node-name": top });
  await attempt(process, { execute: "object-del", arguments: { id: throttleGroupId(key) } });
}

/** A controller for one disk goes with it. A guest that does not react keeps an empty one; it does no harm. */
async function dropController(work: LiveWork, values: VmValues, key: string, drive: Drive): Promise<void> {
  const { process, log } = work;
  const scsihw = values["scsihw"];
  const { bus, index } = splitDriveKey(key);
  if (bus === "scsi" && scsihw === "virtio-scsi-single") {
    try {
      await unplugDevice(process.qmp, scsiController(scsihw, index).id, { timeoutMs: UNPLUG_TIMEOUT_MS });
    } catch (err) {
      ignore(err, "the disk itself is gone");
      log(`${key}: the guest keeps the empty controller until it is restarted`);
      return;
    }
  }
  const thread = iothreadId(scsihw, key, drive);
  if (thread !== undefined) await attempt(process, { execute: "object-del", arguments: { id: thread } });
}

/** Files of drives that are gone, unless another drive of the guest still has them. */
async function forbid(
  { host, process }: LiveWork,
  kept: VmValues,
  gone: readonly string[],
  except: string,
): Promise<void> {
  const needed = new Set((await resolveVolumes(host, without(kept, except))).files.map(({ path }) => path));
  for (const text of gone) {
    for (const { path } of (await resolveVolumes(host, { ide0: text.replace(/,.*/s, "") })).files) {
      if (!needed.has(path)) await process.forbidFile(path);
    }
  }
}
