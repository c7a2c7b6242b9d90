import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";

export const userShow: CommandSpec = {
  name: "user show",
  summary: "show one user with groups and tokens",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  examples: ["user show joe@pve"],
  doing: (input) => `show user ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    const { pve } = await cli.client();
    const answer = await pve.get("/access/users/{userid}", { userid });
    const user = isObject(answer) ? answer : {};
    const tokens = isObject(user["tokens"]) ? Object.keys(user["tokens"]) : user["tokens"];
    cli.out.facts(cli.out.forPeople ? { userid, ...user, tokens } : { userid, ...user }, [
      { header: "User", field: "userid" },
      { header: "Enabled", field: "enable", format: "boolean" },
      { header: "Name", field: "firstname" },
      { header: "Last name", field: "lastname" },
      { header: "Email", field: "email" },
      { header: "Groups", field: "groups", format: "list" },
      { header: "Tokens", field: "tokens", format: "list" },
      { header: "Expires", field: "expire", format: "expiry" },
      { header: "Comment", field: "comment" },
    ]);
  },
};
