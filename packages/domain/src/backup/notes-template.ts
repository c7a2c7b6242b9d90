import { refused } from "../request/failures.ts";

export interface NotesFacts {
  readonly cluster: string;
  readonly guestname: string;
  readonly node: string;
  readonly vmid: string;
}

/** `{{guestname}}` and its like filled in; `\n` and `\\` are the only escapes. Throws PVE's text on anything else. */
export function expandNotes(template: string, facts: NotesFacts): string {
  const plain = template.replaceAll(/\\(.)/g, (_, char: string) => {
    if (char === "\\") return "\\";
    if (char === "n") return "\n";
    throw refused(`unexpected escape character '${char}'`);
  });
  const known = new Map(Object.entries(facts));
  const text = plain.replaceAll(
    /\{\{(cluster|guestname|node|vmid)\}\}/g,
    (_, name: string) => known.get(name) ?? "",
  );
  const other = /\{\{(\S+)\}\}/.exec(text)?.[1];
  if (other !== undefined) throw refused(`unexpected variable name '${other}'`);
  return text;
}
