import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";

export const nodeProbe: CommandSpec = {
  name: "node probe",
  summary: "try a node's capabilities again",
  arguments: [{ name: "<node>", about: "the node's name" }],
  options: [noWaitOption],
  doing: (input) => `probe node ${input.arg("node")}`,
  run: async (cli, input) => {
    const node = input.arg("node");
    const { v1 } = await cli.client();
    const answer = await v1.post(`nodes/${encodeURIComponent(node)}/probe`, undefined);
    const task = isObject(answer) ? answer["task"] : undefined;
    await finishWork(cli, input, task, `Node ${node} has been probed: gpvectl node capabilities ${node}`);
  },
};
