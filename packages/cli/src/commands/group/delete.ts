import type { CommandSpec } from "../../command.ts";

export const groupDelete: CommandSpec = {
  name: "group delete",
  summary: "delete a group; its users stay",
  arguments: [{ name: "<group>", about: "the group's name" }],
  doing: (input) => `delete group ${input.arg("group")}`,
  run: async (cli, input) => {
    const groupid = input.arg("group");
    const { pve } = await cli.client();
    await pve.delete("/access/groups/{groupid}", { groupid });
    cli.out.done(`Deleted group ${groupid}.`);
  },
};
