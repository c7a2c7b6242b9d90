import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { userColumns } from "./columns.ts";

export const userList: CommandSpec = {
  name: "user list",
  summary: "list users",
  options: watchOptions,
  doing: () => "list users",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    await showRows(cli, input, userColumns, "No users.", () => pve.list("/access/users", { full: true }));
  },
};
