import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const userPermissions: CommandSpec = {
  name: "user permissions",
  summary: "show what a user or token may do, path by path",
  arguments: [{ name: "[userid]", about: "name@realm or name@realm!token; yourself when left out" }],
  options: [{ flags: "--path <path>", about: "only this path, such as /vms/100" }],
  examples: ["user permissions", "user permissions joe@pve --path /pool/dev"],
  doing: (input) => `show the permissions of ${input.optionalArg("userid") ?? "yourself"}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const answer = await pve.get(
      "/access/permissions",
      given({ userid: input.optionalArg("userid"), path: input.text("path") }),
    );
    if (!cli.out.forPeople) {
      cli.out.data(answer);
      return;
    }
    const paths = isObject(answer) ? Object.entries(answer) : [];
    const rows = paths.map(([path, privileges]) => ({
      path,
      privileges: isObject(privileges) ? Object.keys(privileges).toSorted() : [],
    }));
    const columns = [
      { header: "PATH", field: "path" },
      { header: "PRIVILEGES", field: "privileges", format: "list" },
    ] as const;
    cli.out.rows(rows, columns, "No permissions.");
  },
};
