import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const groupList: CommandSpec = {
  name: "group list",
  summary: "list groups and their members",
  options: watchOptions,
  doing: () => "list groups",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "GROUP", field: "groupid" },
      { header: "USERS", field: "users", format: "list" },
      { header: "COMMENT", field: "comment" },
    ] as const;
    await showRows(cli, input, columns, "No groups.", () => pve.list("/access/groups"));
  },
};
