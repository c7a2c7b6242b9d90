import type { CommandSpec } from "../../command.ts";

export const poolDelete: CommandSpec = {
  name: "pool delete",
  summary: "delete an empty pool",
  arguments: [{ name: "<pool>", about: "the pool's name" }],
  doing: (input) => `delete pool ${input.arg("pool")}`,
  run: async (cli, input) => {
    const poolid = input.arg("pool");
    const { pve } = await cli.client();
    await pve.delete("/pools", { poolid });
    cli.out.done(`Deleted pool ${poolid}.`);
  },
};
