import type { CommandSpec } from "../../command.ts";

export const userDelete: CommandSpec = {
  name: "user delete",
  summary: "delete a user with its tokens and permissions",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  examples: ["user delete joe@pve"],
  doing: (input) => `delete user ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    const { pve } = await cli.client();
    await pve.delete("/access/users/{userid}", { userid });
    cli.out.done(`Deleted user ${userid}.`);
  },
};
