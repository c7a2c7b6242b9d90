import { errorKinds } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { printable } from "../../output/display-width.ts";

export const taskFollow: CommandSpec = {
  name: "task follow",
  summary: "print a task's log as it grows, until the task ends",
  details: "The exit code is the task's outcome: 0 when it ended well (warnings included), 1 when it failed.",
  arguments: [{ name: "<upid>", about: "the task's UPID; a finished one prints its whole log" }],
  examples: ["task follow UPID:n1:00000001:0000AB12:65000000:qmstart:100:root@pam:"],
  doing: (input) => `follow task ${input.arg("upid")}`,
  run: async (cli, input) => {
    const upid = input.arg("upid");
    const client = await cli.client();
    const onLog = (line: string): void => {
      if (cli.out.forPeople) cli.out.line(printable(line));
    };
    const outcome = await client.waitTask(upid, { onLog, signal: cli.signal });
    if (!cli.out.forPeople) cli.out.data(outcome);
    return outcome.ok ? 0 : errorKinds.internal.exit;
  },
};
