// Tags of guests: how they are stored, and who may set which.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AccessView } from "../../request/context.ts";
import { splitList } from "../../schema/list.ts";

/** What the datacenter's options say about tags, as they are stored. */
export interface TagRules {
  /** `case-sensitive=1,ordering=config` */
  readonly style?: string | undefined;
  /** Tags that need Sys.Modify, separated by `;`. */
  readonly registered?: string | undefined;
  /** `user-allow=list,user-allow-list=a;b` */
  readonly access?: string | undefined;
}

/** Unique, joined by `;`; lower case and sorted unless the datacenter wants it otherwise. */
export function storedTags(text: string, { style = "" }: TagRules = {}): string {
  const isCaseSensitive = flag(style, "case-sensitive");
  const tags = splitList(text).map((tag) => (isCaseSensitive ? tag : tag.toLowerCase()));
  const unique = [...new Set(tags)];
  return (option(style, "ordering") === "config" ? unique : unique.toSorted()).join(";");
}

/** Throws PVE's text for the first tag that comes or goes and is not the caller's to change. */
export function requireTagAccess(
  before: string | undefined,
  after: string | undefined,
  rules: TagRules,
  access: AccessView,
  inUse: () => readonly string[],
): void {
  const [old, next] = [splitList(before ?? ""), splitList(after ?? "")];
  const changed = [...new Set([...old, ...next])].filter((tag) => old.includes(tag) !== next.includes(tag));
  if (changed.length === 0 || access.has("/", ["Sys.Modify"])) return;
  const registered = new Set(splitList(rules.registered ?? ""));
  const mode = option(rules.access ?? "", "user-allow") ?? "free";
  const allowed = new Set([
    ...(mode === "none" ? [] : (option(rules.access ?? "", "user-allow-list") ?? "").split(";")),
    ...(mode === "existing" ? inUse().flatMap((tags) => splitList(tags)) : []),
  ]);
  for (const tag of changed) {
    if (!registered.has(tag) && (mode === "free" || allowed.has(tag))) continue;
    throw new AppError("access.denied", `Permission check failed (/, Sys.Modify for modifying tag '${tag}')`);
  }
}

function option(text: string, name: string): string | undefined {
  const found = text.split(",").find((part) => part.startsWith(`${name}=`));
  return found?.slice(name.length + 1);
}

function flag(text: string, name: string): boolean {
  return ["1", "on", "yes", "true"].includes(option(text, name) ?? "");
}
