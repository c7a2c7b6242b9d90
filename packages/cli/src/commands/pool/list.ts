import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const poolList: CommandSpec = {
  name: "pool list",
  summary: "list pools",
  options: watchOptions,
  doing: () => "list pools",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "POOL", field: "poolid" },
      { header: "COMMENT", field: "comment" },
    ] as const;
    await showRows(cli, input, columns, "No pools.", () => pve.list("/pools"));
  },
};
