// Taking a node out of service and back: nothing new is placed on it, and what runs there moves away.
import type { GpveClient } from "@gpve/client/client.ts";
import type { CommandSpec } from "../../command.ts";

const nodeArgument = { name: "<node>", about: "the node" };

export async function setUnschedulable(
  client: GpveClient,
  node: string,
  unschedulable: boolean,
): Promise<void> {
  await client.v1.raw("PATCH", `nodes/${encodeURIComponent(node)}`, { body: { spec: { unschedulable } } });
}

export const nodeCordon: CommandSpec = {
  name: "node cordon",
  summary: "place nothing new on a node",
  arguments: [nodeArgument],
  examples: ["node cordon n2"],
  doing: (input) => `cordon node ${input.arg("node")}`,
  run: async (cli, input) => {
    await setUnschedulable(await cli.client(), input.arg("node"), true);
    cli.out.done(`Nothing new is placed on ${input.arg("node")}; what runs there runs on.`);
  },
};

export const nodeUncordon: CommandSpec = {
  name: "node uncordon",
  summary: "place guests on a node again",
  arguments: [nodeArgument],
  examples: ["node uncordon n2"],
  doing: (input) => `uncordon node ${input.arg("node")}`,
  run: async (cli, input) => {
    await setUnschedulable(await cli.client(), input.arg("node"), false);
    cli.out.done(`${input.arg("node")} takes guests again.`);
  },
};
