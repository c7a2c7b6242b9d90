import type { CommandSpec } from "../../command.ts";

export const roleDelete: CommandSpec = {
  name: "role delete",
  summary: "delete a role that is not built in",
  arguments: [{ name: "<role>", about: "the role's name" }],
  doing: (input) => `delete role ${input.arg("role")}`,
  run: async (cli, input) => {
    const roleid = input.arg("role");
    const { pve } = await cli.client();
    await pve.delete("/access/roles/{roleid}", { roleid });
    cli.out.done(`Deleted role ${roleid}.`);
  },
};
