import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const aclList: CommandSpec = {
  name: "acl list",
  summary: "list who has which role on which path",
  options: [{ flags: "--path <path>", about: "only entries of this path" }, ...watchOptions],
  examples: ["acl list", "acl list --path /pool/dev"],
  doing: () => "list permissions",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const path = input.text("path");
    const columns = [
      { header: "PATH", field: "path" },
      { header: "TYPE", field: "type" },
      { header: "WHO", field: "ugid" },
      { header: "ROLE", field: "roleid" },
      { header: "PROPAGATE", field: "propagate", format: "boolean" },
    ] as const;
    await showRows(cli, input, columns, "No permissions are set.", async () => {
      const rows = await pve.list("/access/acl");
      return rows.filter((row) => path === undefined || row["path"] === path);
    });
  },
};
