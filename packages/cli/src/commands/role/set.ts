import type { CommandSpec } from "../../command.ts";

export const roleSet: CommandSpec = {
  name: "role set",
  summary: "change a role's privileges",
  arguments: [
    { name: "<role>", about: "the role's name" },
    { name: "<privileges...>", about: "the new set, or what to add with --append" },
  ],
  options: [{ flags: "--append", about: "add to the privileges instead of replacing them" }],
  examples: ["role set Watcher VM.Console --append"],
  doing: (input) => `change role ${input.arg("role")}`,
  run: async (cli, input) => {
    const roleid = input.arg("role");
    const { pve } = await cli.client();
    await pve.put("/access/roles/{roleid}", {
      roleid,
      privs: input.args("privileges").join(","),
      ...(input.flag("append") ? { append: true } : {}),
    });
    cli.out.done(`Changed role ${roleid}.`);
  },
};
