// PVE's commands that gpve answers to.
import type { CallCommand, CommandGroup } from "./command-entry.ts";
import { pvenode, vzdump } from "./tables/pvenode.ts";
import { pvesm } from "./tables/pvesm.ts";
import { pveum } from "./tables/pveum.ts";
import { qm } from "./tables/qm.ts";

/** `pvesh` has no table: its commands are the API's verbs. */
export const programTables: Readonly<Record<string, CommandGroup | CallCommand>> = {
  qm,
  pvesm,
  pveum,
  pvenode,
  vzdump,
};
