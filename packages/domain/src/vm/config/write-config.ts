// Writes a VM's configuration file: description first, keys sorted, then [PENDING], special sections, snapshots.
import { refused } from "../../request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { encodeText } from "./config-text.ts";
import { findCloudinitDrive, listDrives } from "./drive.ts";
import { checkVmValue } from "./keys.ts";
import type { VmConfig, VmValues } from "./vm-config.ts";
import { without } from "../../guest/guest-config.ts";

export function writeVmConfig(config: VmConfig): string {
  const checked = normalise(modernise(without(config.values, "snapstate")));
  const pending = normalise(config.pending, true);
  const main = dropReattached(checked, pending);
  let text = section(main, false);
  if (Object.keys(pending).length > 0) text += `\n[PENDING]\n${section(pending, true)}`;
  for (const name of Object.keys(config.special).sort()) {
    if (name === "cloudinit" && findCloudinitDrive(main) === undefined) continue;
    text += `\n[special:${name}]\n${section(config.special[name] ?? {}, false)}`;
  }
  for (const name of Object.keys(config.snapshots).sort()) {
    if (name.toLowerCase() === "pending")
      throw new AppError("internal.error", `internal error: snapshot name '${name}' is forbidden`);
    text += `\n[${name}]\n${section(normalise(config.snapshots[name] ?? {}), false)}`;
  }
  return text;
}

/** Keys of old releases under their present names. */
function modernise(values: VmValues): VmValues {
  let result = values;
  const cdrom = result["cdrom"];
  if (cdrom !== undefined) {
    if (result["ide2"] !== undefined) throw refused("option ide2 conflicts with cdrom");
    result = { ...without(result, "cdrom"), ide2: cdrom };
  }
  const smp = result["smp"];
  if (smp === undefined) return result;
  if (result["sockets"] !== undefined) return without(result, "smp");
  return { ...without(result, "smp", "cores"), sockets: smp };
}

function normalise(values: VmValues, pending = false): VmValues {
  const result: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    if (key === "description" || key === "snapstate" || (key === "delete" && pending)) {
      result[key] = value;
      continue;
    }
    if (key === "delete")
      throw new AppError("internal.error", "property 'delete' is only allowed in [PENDING]");
    const checked = checkVmValue(key, value);
    if (!checked.ok) {
      const text = `unable to parse value of '${key}' - ${checked.error.trimEnd()}`;
      throw refused(text);
    }
    result[key] = checked.value;
  }
  return result;
}

/** A volume that is attached again, or will be at the next start, is no longer unused. */
function dropReattached(values: VmValues, pending: VmValues): VmValues {
  const used = new Set([...listDrives(values), ...listDrives(pending)].map(({ drive }) => drive.file));
  const reattached = Object.keys(values).filter(
    (key) => /^unused\d+$/.test(key) && used.has(values[key] ?? ""),
  );
  return without(values, ...reattached);
}

function section(values: VmValues, pending: boolean): string {
  let text = "";
  const description = values["description"];
  if (description !== undefined && description !== "") {
    const lines = description.replace(/\n+$/, "");
    for (const line of lines === "" ? [] : lines.split("\n")) text += `#${encodeText(line)}\n`;
  } else if (description === "" && pending) text += "#\n";
  for (const key of Object.keys(values).sort()) {
    if (key !== "description") text += `${key}: ${values[key] ?? ""}\n`;
  }
  return text;
}
