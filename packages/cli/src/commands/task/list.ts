import { given } from "@gpve/contracts/given.ts";
import type { PveRow } from "@gpve/client/pve-client.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { taskColumns } from "./columns.ts";

export const taskList: CommandSpec = {
  name: "task list",
  summary: "list tasks, newest first",
  details: "Without --node the recent tasks of all nodes; with it that node's whole history.",
  options: [
    { flags: "--node <name>", about: "tasks of this node" },
    { flags: "--running", about: "only tasks that still run" },
    { flags: "--errors", about: "only tasks that failed" },
    { flags: "--user <userid>", about: "only tasks of this user" },
    { flags: "--type <type>", about: "only tasks of this type, such as qmstart" },
    { flags: "-n, --limit <count>", about: "at most so many (50)", parse: wholeNumber(1, 100_000) },
    ...watchOptions,
  ],
  examples: ["task list --running --watch", "task list --node n1 --errors -n 10"],
  doing: () => "list tasks",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const node = input.text("node");
    const limit = input.number("limit") ?? 50;
    const user = input.text("user");
    const type = input.text("type");
    const fetch = async (): Promise<readonly PveRow[]> => {
      const rows =
        node === undefined
          ? await pve.list("/cluster/tasks")
          : await pve.list("/nodes/{node}/tasks", {
              node,
              limit,
              source: input.flag("running") ? "active" : "all",
              ...given({ userfilter: user, typefilter: type }),
            });
      return rows
        .map((row) => withTime(row, cli.io.clock.now()))
        .filter((row) => !input.flag("running") || row["status"] === "running")
        .filter((row) => !input.flag("errors") || isFailure(row["status"]))
        .filter((row) => user === undefined || String(row["user"]).startsWith(user))
        .filter((row) => type === undefined || row["type"] === type)
        .slice(0, limit);
    };
    await showRows(cli, input, taskColumns, "No tasks.", fetch);
  },
};

/** Running tasks have no end; PVE marks them by absence or RUNNING. */
function withTime(row: PveRow, nowMs: number): PveRow {
  const running = row["endtime"] === undefined || row["endtime"] === 0;
  const end = running ? Math.floor(nowMs / 1000) : Number(row["endtime"]);
  return {
    ...row,
    status: running ? "running" : row["status"],
    seconds: Math.max(0, end - Number(row["starttime"])),
  };
}

function isFailure(status: unknown): boolean {
  return (
    typeof status === "string" && status !== "OK" && status !== "running" && !status.startsWith("WARNINGS")
  );
}
