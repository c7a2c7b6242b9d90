// A plan as people read it: one line per object, one per field that changes.
import type { FieldChange, PlanItem } from "@gpve/client/object.ts";
import type { Printer } from "../../output/printer.ts";
import { printable } from "../../output/display-width.ts";

const SIGNS = { create: "+", update: "~", unchanged: " ", refused: "!" } as const;

export function printPlan(out: Printer, items: readonly PlanItem[]): void {
  const { green, yellow, red, dim } = out.colours;
  const paint = { create: green, update: yellow, unchanged: dim, refused: red };
  for (const item of items) {
    const line = `${SIGNS[item.action]} ${item.kind} ${nameOf(item)}: ${item.action}`;
    out.line(paint[item.action](printable(line)));
    if (item.problem !== undefined) out.line(red(`    ${printable(item.problem.detail)}`));
    for (const change of item.changes) out.line(`    ${changeText(change)}`);
    for (const note of item.notes ?? []) out.line(yellow(`    ! ${printable(note)}`));
  }
}

/** With its tenant, where another's may have the same. */
function nameOf({ name, namespace }: PlanItem): string {
  const shown = name === "" ? "(no name)" : name;
  return namespace === undefined ? shown : `${namespace}/${shown}`;
}

/** "2 to create, 1 to update, 3 unchanged" */
export function planSummary(items: readonly PlanItem[]): string {
  const count = (action: PlanItem["action"]): number => items.filter((item) => item.action === action).length;
  const parts = [
    `${count("create")} to create`,
    `${count("update")} to update`,
    `${count("unchanged")} unchanged`,
    ...(count("refused") > 0 ? [`${count("refused")} refused`] : []),
  ];
  return parts.join(", ");
}

function changeText(change: FieldChange): string {
  const before = printable(JSON.stringify(change.before) ?? "");
  const after = printable(JSON.stringify(change.after) ?? "");
  const path = printable(change.path);
  switch (change.op) {
    case "add":
      return `+ ${path}: ${after}`;
    case "remove":
      return `- ${path}: ${before}`;
    case "replace":
      return `~ ${path}: ${before} -> ${after}`;
  }
}
