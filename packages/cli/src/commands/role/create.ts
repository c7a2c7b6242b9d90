import type { CommandSpec } from "../../command.ts";

export const roleCreate: CommandSpec = {
  name: "role create",
  summary: "create a role",
  arguments: [
    { name: "<role>", about: "the role's name" },
    { name: "[privileges...]", about: "such as VM.Audit VM.Console" },
  ],
  examples: ["role create Watcher VM.Audit Sys.Audit"],
  doing: (input) => `create role ${input.arg("role")}`,
  run: async (cli, input) => {
    const roleid = input.arg("role");
    const { pve } = await cli.client();
    await pve.post("/access/roles", { roleid, privs: input.args("privileges").join(",") });
    cli.out.done(`Created role ${roleid}.`);
  },
};
