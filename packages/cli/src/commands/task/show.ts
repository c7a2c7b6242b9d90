import { upidNode } from "@gpve/client/task-wait.ts";
import type { CommandSpec } from "../../command.ts";
import { taskFacts } from "./columns.ts";

export const taskShow: CommandSpec = {
  name: "task show",
  summary: "show one task",
  arguments: [{ name: "<upid>", about: "the task's UPID" }],
  examples: ["task show UPID:n1:00000001:0000AB12:65000000:qmstart:100:root@pam:"],
  doing: (input) => `show task ${input.arg("upid")}`,
  run: async (cli, input) => {
    const upid = input.arg("upid");
    const { pve } = await cli.client();
    const status = await pve.get("/nodes/{node}/tasks/{upid}/status", { node: upidNode(upid), upid });
    cli.out.facts(status, taskFacts);
  },
};
