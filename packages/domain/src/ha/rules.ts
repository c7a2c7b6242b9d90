// Rules of where services may be: to which nodes each one belongs, which stay together and which apart.

export interface NodeAffinityRule {
  readonly type: "node-affinity";
  readonly id: string;
  readonly resources: readonly string[];
  /** Priority by node: the highest that is online is taken. */
  readonly nodes: ReadonlyMap<string, number>;
  /** Strict: nowhere else. Otherwise elsewhere rather than nowhere. */
  readonly strict: boolean;
}

export interface ResourceAffinityRule {
  readonly type: "resource-affinity";
  readonly id: string;
  readonly resources: readonly string[];
  readonly affinity: "positive" | "negative";
}

export type Rule = NodeAffinityRule | ResourceAffinityRule;
export type Rules = readonly Rule[];

/** Reads the rules file: `type: id`, then indented `key value` lines. Disabled rules are left out. */
export function parseRules(text: string): Rules {
  return parseSections(text).flatMap(({ type, id, values }) => ruleFrom(type, id, values));
}

/** Groups, which rules replaced: each is a rule for the services that name it, and may also forbid failback. */
export function rulesFromGroups(
  text: string,
  members: ReadonlyMap<string, readonly string[]>,
): { readonly rules: Rules; readonly withoutFailback: ReadonlySet<string> } {
  const groups = parseSections(text).filter(
    ({ type, id }) => type === "group" && (members.get(id) ?? []).length > 0,
  );
  const rules = groups.flatMap(({ id, values }) =>
    ruleFrom(
      "node-affinity",
      `ha-group-${id}`,
      new Map([
        ["resources", (members.get(id) ?? []).join(",")],
        ["nodes", values.get("nodes") ?? ""],
        ["strict", values.get("restricted") ?? "0"],
      ]),
    ),
  );
  const held = groups.filter(({ values }) => isOn(values.get("nofailback")));
  return { rules, withoutFailback: new Set(held.flatMap(({ id }) => members.get(id) ?? [])) };
}

interface Section {
  readonly type: string;
  readonly id: string;
  readonly values: Map<string, string>;
}

function parseSections(text: string): readonly Section[] {
  const sections: Section[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const head = /^([a-z-]+):\s*(\S+)\s*$/.exec(line);
    if (head !== null) {
      sections.push({ type: head[1] ?? "", id: head[2] ?? "", values: new Map() });
      continue;
    }
    const pair = /^\s+(\S+)\s*(.*?)\s*$/.exec(line);
    if (pair !== null) sections.at(-1)?.values.set(pair[1] ?? "", pair[2] ?? "");
  }
  return sections;
}

function ruleFrom(type: string, id: string, values: ReadonlyMap<string, string>): readonly Rule[] {
  const disable = values.get("disable");
  // PVE writes the word alone.
  if (disable === "" || isOn(disable)) return [];
  const resources = [...new Set(list(values.get("resources")))].toSorted();
  if (type === "node-affinity") {
    const nodes = list(values.get("nodes")).map((entry): [string, number] => {
      const [node, priority] = entry.split(":");
      return [node ?? "", Number(priority ?? 0)];
    });
    return [{ type, id, resources, nodes: new Map(nodes), strict: isOn(values.get("strict")) }];
  }
  if (type !== "resource-affinity") return [];
  const affinity = values.get("affinity");
  return affinity === "positive" || affinity === "negative" ? [{ type, id, resources, affinity }] : [];
}

function list(text: string | undefined): readonly string[] {
  return (text ?? "").split(/[,;\s]+/).filter((entry) => entry !== "");
}

/** As PVE's files have it. */
function isOn(text: string | undefined): boolean {
  return /^(?:1|on|yes|true)$/i.test(text ?? "");
}
