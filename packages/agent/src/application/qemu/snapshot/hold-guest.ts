import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";

/** States in which a finished or cut-off migration leaves a guest: still, its disks closed. */
const LEFT_BY_MIGRATION = ["postmigrate", "finish-migrate"];

/** After a guest was held still for us: it runs on, or is paused again when that is what its owner wanted. */
export async function letGo({ qmp }: QemuProcess, resumes: boolean): Promise<void> {
  const { status } = await qmp.execute("query-status");
  if (resumes) {
    if (status === "paused" || LEFT_BY_MIGRATION.includes(status)) await qmp.execute("cont");
    return;
  }
  if (!LEFT_BY_MIGRATION.includes(status)) return;
  // Only a guest that runs gets its disks back.
  await qmp.execute("cont");
  await qmp.execute("stop");
}
