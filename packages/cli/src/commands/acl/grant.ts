import type { CommandSpec } from "../../command.ts";
import { aclArguments, aclOptions, changeAcl } from "./change.ts";

export const aclGrant: CommandSpec = {
  name: "acl grant",
  summary: "give users, groups or tokens a role on a path",
  arguments: aclArguments,
  options: [...aclOptions, { flags: "--no-propagate", about: "only on this very path, not below it" }],
  examples: ["acl grant /pool/dev PVEVMAdmin --group devs", "acl grant / PVEAuditor --token 'ci@pve!build'"],
  doing: (input) => `grant ${input.arg("role")} on ${input.arg("path")}`,
  run: async (cli, input) => {
    await changeAcl(cli, input, input.flag("propagate") ? {} : { propagate: false });
    cli.out.done(`Granted ${input.arg("role")} on ${input.arg("path")}.`);
  },
};
