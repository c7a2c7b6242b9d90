// What a change of a VM's disks does that its fields do not show.
import { isCdrom, parseDrive } from "../config/drive.ts";
import { driveKeys } from "../config/keys.ts";
import type { VmValues } from "../config/vm-config.ts";

/** Sentences for a plan, in the order of the disks. */
export function diskNotes(before: VmValues, after: VmValues): readonly string[] {
  const [gone, made]: [{ key: string; file: string }[], string[]] = [[], []];
  for (const key of driveKeys) {
    const [had, has] = [before[key], after[key]].map((text) =>
      text === undefined ? undefined : parseDrive(key, text),
    );
    const isLost = had !== undefined && !isCdrom(had) && had.file !== has?.file;
    if (isLost && !Object.values(after).some((text) => text.split(",")[0] === had.file))
      gone.push({ key, file: had.file });
    if (has !== undefined && has["import-from"] === undefined && /^[^/]+:\d+(?:\.\d+)?$/.test(has.file))
      made.push(key);
  }
  const notes = [
    ...gone.map(({ key, file }) => `disk ${key} is taken out; its volume ${file} is kept as an unused disk`),
    ...made.map((key) => `disk ${key} is made new and empty`),
  ];
  const [lost] = gone;
  if (lost === undefined || made.length === 0) return notes;
  return [
    ...notes,
    `a disk is not renamed by another name: to have ${lost.file} as ${made[0] ?? ""}, give it as the volume there`,
  ];
}
