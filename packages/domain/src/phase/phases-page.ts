// The page of a table of phases, for docs/reference.
import type { StateMachine } from "./state-machine.ts";
import { vmPhases } from "./vm-phases.ts";

export function vmPhasesPage(): string {
  return [
    "# Phases of a virtual machine",
    "",
    "Generated from `packages/domain/src/phase/vm-phases.ts`.",
    "",
    "`status.phase` of a VirtualMachine in `/api/v1`. Nobody stores it: it follows from the work under way on the VM, the work that ended last, and what its node reports. `gpvectl get vm -w` shows every phase a VM comes to, in the order of the table, also those it passed too quickly to be seen.",
    "",
    "`Unknown`: its node has not reported since this server began.",
    "",
    ...tables(vmPhases),
    "",
  ].join("\n");
}

function tables(machine: StateMachine<string, string>): readonly string[] {
  return [
    ...table(["phase", "meaning"], Object.entries(machine.phases)),
    "",
    ...table(
      ["from", "event", "to", "when", "effect"],
      machine.transitions.map(({ from, event, to, when, effect }) => [from, event, to, when, effect]),
    ),
    "",
    `The first is ${machine.first}; after ${machine.last} there is nothing any more.`,
  ];
}

/** As the formatter writes tables, so that it has nothing to change. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const widths = head.map((title, at) =>
    Math.max(title.length, ...rows.map((row) => (row[at] ?? "").length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)];
}
