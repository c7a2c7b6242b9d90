// `qm disk import`: a file of this machine as a disk of a VM, unused unless a drive is named.
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { followTask } from "../follow-task.ts";
import { readGuestConfig, volumeOfDrive } from "./guest-config.ts";

export async function importDisk(session: PveSession, values: OptionValues): Promise<void> {
  const [vmid, source, storage] = ["vmid", "source", "storage"].map((name) => String(values[name]));
  const before = await readGuestConfig(session, vmid ?? "");
  const path = resolve(session.io.cwd, source ?? "");
  const facts = await stat(path).catch(() => undefined);
  if (facts?.isFile() !== true) {
    throw new AppError("request.invalid", `${source}: non-existent or non-regular file`, { pveStatus: 500 });
  }
  if (path.includes(",")) {
    throw new AppError("request.invalid", `${source}: a file whose path has a comma cannot be imported`, {
      pveStatus: 500,
    });
  }
  const wanted = values["target-disk"] === undefined ? undefined : String(values["target-disk"]);
  const named = wanted?.startsWith("unused") === true ? undefined : wanted;
  const drive = named ?? freeDrive(before);
  const format = values["format"] === undefined ? "" : `,format=${String(values["format"])}`;
  session.line(`importing disk '${source}' to VM ${vmid} ...`);
  const { pve } = await session.client();
  const place = { node: await session.node(), vmid };
  const { data } = await pve.call("POST", "/nodes/{node}/qemu/{vmid}/config", {
    ...place,
    [drive]: `${storage}:0,import-from=${path}${format}`,
  });
  if (isUpid(data)) await followTask(session, data);
  const made = await readGuestConfig(session, vmid ?? "");
  if (named !== undefined) {
    session.line(`${named}: successfully imported disk '${made[named] ?? ""}'`);
    return;
  }
  // The API makes disks for drives alone: this one has its drive only until it is there.
  await pve.call("PUT", "/nodes/{node}/qemu/{vmid}/config", { ...place, delete: drive });
  const volume = volumeOfDrive(made[drive] ?? "");
  const after = await readGuestConfig(session, vmid ?? "");
  const unused = Object.keys(after).find((key) => /^unused\d+$/.test(key) && after[key] === volume);
  if (unused === undefined) {
    throw new AppError(
      "object.conflict",
      `the disk ${volume} is in place, but still ${drive} of VM ${vmid}: detach it with qm disk unlink ${vmid} --idlist ${drive}`,
      { pveStatus: 500 },
    );
  }
  session.line(`${unused}: successfully imported disk '${volume}'`);
}

/** SATA disks are never plugged into a running guest: it does not see the one that comes and goes. */
function freeDrive(config: Readonly<Record<string, string>>): string {
  for (let at = 5; at >= 0; at--) if (config[`sata${at}`] === undefined) return `sata${at}`;
  throw new AppError(
    "capacity.exceeded",
    "the VM has all 6 SATA disks it can have: name a free drive with --target-disk",
    { pveStatus: 500 },
  );
}
