import { upidNode } from "@gpve/client/task-wait.ts";
import type { CommandSpec } from "../../command.ts";

export const taskCancel: CommandSpec = {
  name: "task cancel",
  summary: "ask a running task to stop",
  arguments: [{ name: "<upid>", about: "the task's UPID" }],
  options: [{ flags: "--wait", about: "wait until it has stopped" }],
  doing: (input) => `cancel task ${input.arg("upid")}`,
  run: async (cli, input) => {
    const upid = input.arg("upid");
    const client = await cli.client();
    await client.pve.delete("/nodes/{node}/tasks/{upid}", { node: upidNode(upid), upid });
    if (!input.flag("wait")) {
      cli.out.done(`Asked ${upid} to stop.`);
      return;
    }
    const outcome = await client.waitTask(upid, { signal: cli.signal });
    cli.out.done(`${upid} has ended: ${outcome.exitstatus}`);
  },
};
