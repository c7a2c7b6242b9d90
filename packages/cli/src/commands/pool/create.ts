import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";

export const poolCreate: CommandSpec = {
  name: "pool create",
  summary: "create a pool",
  arguments: [{ name: "<pool>", about: "the pool's name; nested ones as a/b/c" }],
  options: [{ flags: "--comment <text>", about: "free text" }],
  examples: ["pool create dev --comment 'development machines'"],
  doing: (input) => `create pool ${input.arg("pool")}`,
  run: async (cli, input) => {
    const poolid = input.arg("pool");
    const { pve } = await cli.client();
    await pve.post("/pools", { poolid, ...given({ comment: input.text("comment") }) });
    cli.out.done(`Created pool ${poolid}.`);
  },
};
