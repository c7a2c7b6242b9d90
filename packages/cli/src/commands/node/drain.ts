// Empties a node for maintenance: cordons it, then moves its guests to nodes that can have them, one after the other.
import type { GpveClient } from "@gpve/client/client.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { isOrderToHa, untilMovedByHa } from "../vm/moved-by-ha.ts";
import { setUnschedulable } from "./cordon.ts";
import { drainClusters } from "./drain-clusters.ts";
import { nodeForGuest, nodeForPart, type DrainedGuest } from "./drain-target.ts";

export const nodeDrain: CommandSpec = {
  name: "node drain",
  summary: "move all guests of a node away, for maintenance",
  details:
    "The node is cordoned first. Running guests move live, each where the scheduler would place it now; where all nodes are promised to others, to one that has the memory nevertheless. Templates stay. Control planes and workers of virtual clusters move too. What cannot move is named with its reason, and the rest goes on. `node uncordon` takes the node back into service.",
  arguments: [{ name: "<node>", about: "the node to empty" }],
  examples: ["node drain n2"],
  doing: (input) => `drain node ${input.arg("node")}`,
  run: async (cli, input) => {
    const node = input.arg("node");
    const client = await cli.client();
    await setUnschedulable(client, node, true);
    const stuck: string[] = [];
    const guests = await guestsOf(client, node);
    for (const guest of guests) {
      const { vmid, name, running } = guest;
      try {
        const target = await nodeForGuest(client, node, guest);
        const answer = await client.pve.post("/nodes/{node}/qemu/{vmid}/migrate", {
          node,
          vmid,
          target,
          ...(running ? { online: true, "with-local-disks": true } : {}),
        });
        if (isUpid(answer)) await client.requireTask(answer, { signal: cli.signal });
        const now = isOrderToHa(answer) ? await untilMovedByHa(cli, node, vmid) : target;
        cli.out.done(`VM ${vmid} (${name}) is on ${now} now.`);
      } catch (err) {
        stuck.push(`VM ${vmid} (${name}): ${messageOf(err).trim()}`);
      }
    }
    const clusters = await drainClusters(cli, client, node, () => nodeForPart(client, node));
    stuck.push(...clusters.stuck);
    if (stuck.length > 0)
      throw new AppError(
        "resource.busy",
        `node ${node} takes nothing new, but still has ${stuck.join("; ")}`,
        {
          data: {
            next: `Move or stop these, then drain again; gpvectl node uncordon ${node} takes it back.`,
          },
        },
      );
    const moved = guests.length + clusters.moved;
    cli.out.done(`Node ${node} ${clusters.isEmpty ? "is empty and " : ""}takes nothing new: ${moved} moved.`);
  },
};

async function guestsOf(client: GpveClient, node: string): Promise<readonly DrainedGuest[]> {
  const rows = await client.pve.list("/nodes/{node}/qemu", { node });
  return rows
    .filter((row) => row["template"] !== 1 && row["template"] !== true)
    .map((row) => ({
      vmid: Number(row["vmid"]),
      name: String(row["name"]),
      running: row["status"] === "running",
      memoryBytes: Number(row["maxmem"] ?? 0),
    }))
    .toSorted((a, b) => a.vmid - b.vmid);
}
