// The keys of a VM's configuration: what its creation takes, without what creation alone knows.
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";

const ofCreation = new Set([
  "node",
  "vmid",
  "archive",
  "bwlimit",
  "force",
  "ha-managed",
  "import-working-storage",
  "live-restore",
  "pool",
  "start",
  "storage",
  "unique",
]);

export const vmConfigParameters: Readonly<Record<string, PveSchema>> = Object.fromEntries(
  Object.entries(methodByKey("POST /nodes/{node}/qemu")?.parameters ?? {}).filter(
    ([name]) => !ofCreation.has(name),
  ),
);
