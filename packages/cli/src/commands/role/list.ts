import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const roleList: CommandSpec = {
  name: "role list",
  summary: "list roles and their privileges",
  options: watchOptions,
  doing: () => "list roles",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "ROLE", field: "roleid" },
      { header: "BUILT IN", field: "special", format: "boolean" },
      { header: "PRIVILEGES", field: "privs" },
    ] as const;
    await showRows(cli, input, columns, "No roles.", () => pve.list("/access/roles"));
  },
};
