import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const realmList: CommandSpec = {
  name: "realm list",
  summary: "list the realms users log in from",
  options: watchOptions,
  doing: () => "list realms",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "REALM", field: "realm" },
      { header: "TYPE", field: "type" },
      { header: "COMMENT", field: "comment" },
    ] as const;
    await showRows(cli, input, columns, "No realms.", () => pve.list("/access/domains"));
  },
};
