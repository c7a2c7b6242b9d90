// Empties a node for maintenance: cordons it, then moves its guests to nodes that can have them, one after the other.
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { isOrderToHa, untilMovedByHa } from "../vm/moved-by-ha.ts";
import { setUnschedulable } from "./cordon.ts";
import { drainClusters } from "./drain-clusters.ts";

interface Guest {
  readonly vmid: number;
  readonly name: string;
  readonly running: boolean;
}

export const nodeDrain: CommandSpec = {
  name: "node drain",
  summary: "move all guests of a node away, for maintenance",
  details:
    "The node is cordoned first. Running guests move live, each to the allowed node with most free memory; templates stay. Control planes and workers of virtual clusters move too. What cannot move is named with its reason, and the rest goes on. `node uncordon` takes the node back into service.",
  arguments: [{ name: "<node>", about: "the node to empty" }],
  examples: ["node drain n2"],
  doing: (input) => `drain node ${input.arg("node")}`,
  run: async (cli, input) => {
    const node = input.arg("node");
    const client = await cli.client();
    await setUnschedulable(client, node, true);
    const stuck: string[] = [];
    const guests = await guestsOf(client, node);
    for (const { vmid, name, running } of guests) {
      try {
        const target = await targetOf(client, node, vmid);
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
    const clusters = await drainClusters(cli, client, node, async () => openNode(client, node));
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

async function guestsOf(client: GpveClient, node: string): Promise<readonly Guest[]> {
  const rows = await client.pve.list("/nodes/{node}/qemu", { node });
  return rows
    .filter((row) => row["template"] !== 1 && row["template"] !== true)
    .map((row) => ({
      vmid: Number(row["vmid"]),
      name: String(row["name"]),
      running: row["status"] === "running",
    }))
    .toSorted((a, b) => a.vmid - b.vmid);
}

/** Of the nodes that the guest may go to, the one with most free memory; never one that is cordoned itself. */
async function targetOf(client: GpveClient, node: string, vmid: number): Promise<string> {
  const facts = await client.pve.get("/nodes/{node}/qemu/{vmid}/migrate", { node, vmid });
  const { allowed_nodes: allowed, not_allowed_nodes: refused } = isObject(facts) ? facts : {};
  return openNode(client, node, (name) => {
    if (!Array.isArray(allowed) || allowed.includes(name)) return undefined;
    const why = isObject(refused) ? refused[name] : undefined;
    return isObject(why) && Array.isArray(why["reasons"]) ? why["reasons"].join(", ") : "it cannot have it";
  });
}

/** Of those that are open, the one with most free memory. `whyNot`: of a node, undefined where nothing speaks against it. */
async function openNode(
  client: GpveClient,
  node: string,
  whyNot: (name: string) => string | undefined = () => undefined,
): Promise<string> {
  const nodes = (await client.pve.list("/nodes")).filter((row) => row["node"] !== node);
  const free = (row: (typeof nodes)[number]): number => Number(row["maxmem"] ?? 0) - Number(row["mem"] ?? 0);
  const reasons: string[] = [];
  for (const row of nodes.toSorted((a, b) => free(b) - free(a))) {
    const name = String(row["node"]);
    const isOffline = row["status"] !== "online";
    const why = isOffline ? "it is not online" : (whyNot(name) ?? (await whyClosed(client, name)));
    if (why === undefined) return name;
    reasons.push(`${name}: ${why}`);
  }
  const all = reasons.length === 0 ? "there is none" : reasons.join("; ");
  throw new AppError("node.unavailable", `no other node can have it (${all})`);
}

async function whyClosed(client: GpveClient, name: string): Promise<string | undefined> {
  const { spec, status } = await client.v1.get("nodes", name);
  if (status["scheduling"] === "maintenance") return "it is in maintenance";
  return spec["unschedulable"] === true ? "it is cordoned" : undefined;
}
