import { given } from "@gpve/contracts/given.ts";
// What smartctl prints, as PVE shows it. ATA disks have a table of attributes, SAS and NVMe disks a text.

export interface SmartAttribute {
  /** As printed, three characters wide. */
  readonly id: string;
  readonly name: string;
  readonly flags: string;
  /** The older name of `normalized`. */
  readonly value: number;
  readonly normalized: number;
  readonly worst: number;
  readonly threshold: number;
  readonly fail: string;
  readonly raw: string;
}

export interface SmartData {
  readonly [key: string]: unknown;
  readonly health?: string;
  readonly type?: "ata" | "text";
  readonly attributes?: readonly SmartAttribute[];
  readonly text?: string;
  /** Per cent of its life that is left. */
  readonly wearout?: number;
}

const ATTRIBUTE = /^([ \d]{2}\d)\s+(\S+)\s+(\S{6})\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(.*)$/;
const HEALTH = /(?:Health Status|self-assessment test result): (.*)$/;
const USED = /Percentage Used(?: endurance indicator)?:\s*(\d+(?:\.\d+)?)%/i;

/** Makers give the same thing many names; where a disk has several, the first of these counts. */
const LIFE_LEFT = [
  "Media_Wearout_Indicator",
  "SSD_Life_Left",
  "Wear_Leveling_Count",
  "Perc_Write/Erase_Ct_BC",
  "Perc_Rated_Life_Remain",
  "Remaining_Lifetime_Perc",
  "Percent_Lifetime_Remain",
  "Lifetime_Left",
  "PCT_Life_Remaining",
  "Lifetime_Remaining",
  "Percent_Life_Remaining",
  "Percent_Lifetime_Used",
  "Perc_Rated_Life_Used",
];

export function parseSmart(output: string): SmartData {
  let type: SmartData["type"];
  let health: string | undefined;
  let text: string | undefined;
  let wearout: number | undefined;
  const attributes: SmartAttribute[] = [];
  for (const line of output.replace(/\n$/, "").split("\n")) {
    const attribute = type === "ata" ? parseAttribute(line) : undefined;
    const verdict = HEALTH.exec(line)?.[1];
    if (attribute !== undefined) attributes.push(attribute);
    else if (verdict !== undefined) health = verdict;
    else if (line.includes("Vendor Specific SMART Attributes with Thresholds:")) {
      type = "ata";
      text = undefined;
    } else if (/=== START OF (?:READ )?SMART DATA SECTION ===/.test(line)) type = "text";
    else if (type === "text") {
      text = `${text ?? ""}${line}\n`;
      const used = USED.exec(line)?.[1];
      if (used !== undefined) wearout = 100 - Number(used);
    } else if (line.includes("SMART Disabled")) health = "SMART Disabled";
  }
  return {
    ...given({ health, type }),
    ...(attributes.length === 0 ? {} : { attributes }),
    ...given({ text, wearout }),
  };
}

/** Per cent of a solid-state disk's life that is left, where it tells. */
export function lifeLeft({ wearout, attributes = [] }: SmartData): number | undefined {
  if (wearout !== undefined) return wearout;
  for (const name of LIFE_LEFT) {
    const found = attributes.find((attribute) => attribute.name.includes(name));
    if (found !== undefined) return found.value;
  }
  return undefined;
}

function parseAttribute(line: string): SmartAttribute | undefined {
  const found = ATTRIBUTE.exec(line);
  if (found === null) return undefined;
  const [, id = "", name = "", flags = "", value, worst, threshold, fail = "", raw = ""] = found;
  return {
    id,
    name,
    flags,
    value: Number(value),
    normalized: Number(value),
    worst: Number(worst),
    // Some disks print --- for zero.
    threshold: threshold === "---" ? 0 : Number(threshold),
    fail,
    raw,
  };
}
