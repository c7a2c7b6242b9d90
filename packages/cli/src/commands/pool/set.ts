import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";

export const poolSet: CommandSpec = {
  name: "pool set",
  summary: "change a pool's comment or members",
  arguments: [{ name: "<pool>", about: "the pool's name" }],
  options: [
    { flags: "--comment <text>", about: "free text" },
    { flags: "--vms <list>", about: "guests to add, by VMID, separated by commas" },
    { flags: "--storage <list>", about: "storages to add, separated by commas" },
    { flags: "--remove", about: "remove --vms and --storage from the pool instead" },
    { flags: "--allow-move", about: "take guests out of the pool they are in" },
  ],
  examples: ["pool set dev --vms 100,101", "pool set dev --vms 101 --remove"],
  doing: (input) => `change pool ${input.arg("pool")}`,
  run: async (cli, input) => {
    const poolid = input.arg("pool");
    const { pve } = await cli.client();
    await pve.put("/pools", {
      poolid,
      ...given({ comment: input.text("comment"), vms: input.text("vms"), storage: input.text("storage") }),
      ...(input.flag("remove") ? { delete: true } : {}),
      ...(input.flag("allowMove") ? { "allow-move": true } : {}),
    });
    cli.out.done(`Changed pool ${poolid}.`);
  },
};
