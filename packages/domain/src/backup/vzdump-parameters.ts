// What POST vzdump refuses before anything is done, in PVE's words and order.
import { parameterError } from "../request/failures.ts";
import { quotedWord } from "../schema/quoted-word.ts";

export interface VzdumpSelection {
  readonly vmid?: string;
  readonly all?: boolean;
  readonly exclude?: string;
  readonly pool?: string;
  readonly stop?: boolean;
  readonly "notes-template"?: string;
}

export function checkVzdumpSelection(params: VzdumpSelection): void {
  const hasVmid = given(params.vmid);
  for (const name of ["all", "exclude", "pool"] as const) {
    const value = params[name];
    if ((value === true || (typeof value === "string" && value !== "")) && hasVmid)
      throw parameterError({ [name]: "option conflicts with option 'vmid'" });
  }
  if (params["notes-template"]?.includes("\n") === true)
    throw parameterError({ "notes-template": "contains a line feed" });
  if (!selectsAll(params) && params.stop !== true && !given(params.pool) && !hasVmid)
    throw parameterError({ vmid: "property is missing" });
}

/** All guests but those excluded; `exclude` alone means that too. */
export function selectsAll(params: VzdumpSelection): boolean {
  return params.all === true || (params.exclude !== undefined && !given(params.pool));
}

/** Numbers of a list as PVE writes them, ascending; 0 is nobody. */
export function splitVmids(text: string | undefined): number[] {
  const ids = (text ?? "").split(/[,;\s]+/).filter((part) => part !== "");
  return [...new Set(ids.map(Number))].filter((id) => id > 0).toSorted((a, b) => a - b);
}

/** The command that would have asked for the same: the first line of a job's log. */
export function vzdumpCommandLine(params: Readonly<Record<string, unknown>>): string {
  const words = ["vzdump", ...splitVmids(params["vmid"] as string | undefined).map(String)];
  for (const [name, value] of Object.entries(params).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (name === "vmid" || name === "stdout" || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value])
      words.push(`--${name}`, quotedWord(typeof each === "boolean" ? (each ? "1" : "0") : String(each)));
  }
  return words.join(" ");
}

function given(text: string | undefined): boolean {
  return text !== undefined && text !== "";
}
