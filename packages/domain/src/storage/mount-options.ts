// What may be said of a mount from a server, as clients give it.
import { storageRefused } from "./failures.ts";

/** Options that would mount something else, somewhere else, or put a password where everybody reads it. */
const REFUSED =
  /^(?:r?bind|move|remount|r?(?:shared|slave|private|unbindable)|loop|offset|sizelimit|helper|uhelper|suid|dev|cred|credentials|user|username|pass|passwd|password|password2|dom|domain|domainauto|ip|addr|unc|prefixpath|x-.*)$/i;

/** What a client may say of a mount; throws what is wrong with it. */
export function checkMountOptions(type: string, options: Readonly<Record<string, unknown>>): void {
  for (const option of splitOptions(optionText(options["options"]))) {
    const [name = ""] = option.split("=");
    if (REFUSED.test(name)) throw storageRefused(`mount option '${name}' cannot be given`);
    if (/[\s\\"']/.test(option))
      throw storageRefused(`mount option '${name}' has characters that it cannot have`);
  }
  for (const name of ["export", "subdir"]) {
    const path = optionText(options[name]);
    if (path === undefined) continue;
    // A comma would begin another option in the tables that tools read; ".." would leave what was given.
    if (folderNames(path).includes("..") || /[\s,\\]/.test(path))
      throw storageRefused(`'${name}' is no plain path: ${path}`);
  }
  const share = optionText(options["share"]);
  if (type === "cifs" && share !== undefined && /[/\\\p{Cc},]|^\.{0,2}$/u.test(share))
    throw storageRefused(`'share' is no plain name: ${share}`);
  for (const name of ["username", "domain"])
    if (/[\r\n]/.test(optionText(options[name]) ?? "")) throw storageRefused(`'${name}' has a line break`);
}

export function splitOptions(value: string | undefined): string[] {
  return (value ?? "").split(/[\s,]+/).filter((part) => part !== "");
}

export function folderNames(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

export function optionText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
