import type { CommandSpec } from "../../command.ts";
import { aclArguments, aclOptions, changeAcl } from "./change.ts";

export const aclRevoke: CommandSpec = {
  name: "acl revoke",
  summary: "take a role on a path away again",
  arguments: aclArguments,
  options: aclOptions,
  examples: ["acl revoke /pool/dev PVEVMAdmin --group devs"],
  doing: (input) => `revoke ${input.arg("role")} on ${input.arg("path")}`,
  run: async (cli, input) => {
    await changeAcl(cli, input, { delete: true });
    cli.out.done(`Revoked ${input.arg("role")} on ${input.arg("path")}.`);
  },
};
