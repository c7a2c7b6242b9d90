// Guests under HA: a move is an order to the HA manager, and the task that was asked for ends when it has taken the order.
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
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

/** What HA was asked to see to; undefined = the node itself did it. */
export function powerOrderToHa(answer: unknown): "running" | "stopped" | undefined {
  const verb = isUpid(answer) ? /:ha(start|stop):/.exec(answer)?.[1] : undefined;
  return verb === undefined ? undefined : verb === "start" ? "running" : "stopped";
}

/** The task was only the order. False where HA is disarmed and carries it out later. */
export async function untilPoweredByHa(
  cli: Cli,
  vmid: number,
  wanted: "running" | "stopped",
): Promise<boolean> {
  const client = await cli.client();
  const { clock } = cli.io;
  for (const end = clock.monotonic() + HA_PATIENCE_MS; clock.monotonic() < end;) {
    const rows = await client.pve.list("/cluster/resources", { type: "vm" });
    const { status, hastate } = rows.find((row) => Number(row["vmid"]) === vmid) ?? {};
    if (status === wanted) return true;
    if (hastate === "error")
      throw new AppError(
        "operation.failed",
        `HA could not do it and has given up; see gpvectl ha explain ${vmid}`,
      );
    const ha = await client.pve.list("/cluster/ha/status/current").catch((err: unknown) => {
      ignore(err, "who may stop a VM need not be allowed to see how HA stands");
      return [];
    });
    if (String(ha.find(({ type }) => type === "fencing")?.["armed-state"]).startsWith("disarm")) {
      cli.out.note(`HA is disarmed: VM ${vmid} is ${wanted} when it is armed again (gpvectl ha arm).`);
      return false;
    }
    await clock.sleep(HA_POLL_MS, cli.signal);
  }
  throw new AppError(
    "operation.failed",
    `HA was asked to, and VM ${vmid} is not ${wanted} yet; see gpvectl ha explain ${vmid}`,
  );
}
