// The page of a table of phases, for docs/reference.
import { table } from "../page/table.ts";
import type { StateMachine } from "./state-machine.ts";
import { vcPhases } from "./vc-phases.ts";
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

export function vcPhasesPage(): string {
  return [
    "# Phases of a virtual cluster",
    "",
    "Generated from `packages/domain/src/phase/vc-phases.ts`.",
    "",
    "`status.phase` of a VirtualCluster in `/api/v1`. Its node keeps it, and a change that is not in the table does not happen. A cluster that sleeps is Running: `status.power` says hot, warm or cold.",
    "",
    "`Unknown`: its node does not report.",
    "",
    ...tables(vcPhases),
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
