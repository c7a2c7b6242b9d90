// Guests under HA: a move is an order to the HA manager, and the task that was asked for ends when it has taken the order.
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";

const HA_PATIENCE_MS = 180_000;
const HA_POLL_MS = 1_000;

export function isOrderToHa(answer: unknown): boolean {
  return isUpid(answer) && answer.includes(":hamigrate:");
}

/** A guest under HA is moved by the HA manager, which is only asked to. Where it is afterwards. */
export async function untilMovedByHa(cli: Cli, node: string, vmid: number): Promise<string> {
  const client = await cli.client();
  const { clock } = cli.io;
  for (const end = clock.monotonic() + HA_PATIENCE_MS; clock.monotonic() < end;) {
    const rows = await client.pve.list("/cluster/resources", { type: "vm" });
    const now = rows.find((row) => Number(row["vmid"]) === vmid)?.["node"];
    if (typeof now === "string" && now !== node) return now;
    await clock.sleep(HA_POLL_MS, cli.signal);
  }
  throw new AppError(
    "operation.failed",
    `HA was asked to move it, and has not; see gpvectl ha explain ${vmid}`,
  );
}
