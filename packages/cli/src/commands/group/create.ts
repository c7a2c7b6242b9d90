import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";

export const groupCreate: CommandSpec = {
  name: "group create",
  summary: "create a group",
  arguments: [{ name: "<group>", about: "the group's name" }],
  options: [{ flags: "--comment <text>", about: "free text" }],
  examples: ["group create admins --comment 'people on call'"],
  doing: (input) => `create group ${input.arg("group")}`,
  run: async (cli, input) => {
    const groupid = input.arg("group");
    const { pve } = await cli.client();
    await pve.post("/access/groups", { groupid, ...given({ comment: input.text("comment") }) });
    cli.out.done(`Created group ${groupid}.`);
  },
};
