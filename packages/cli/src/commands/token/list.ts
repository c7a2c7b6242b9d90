import type { CommandSpec } from "../../command.ts";
import { showRows, watchOptions } from "../../watch.ts";

export const tokenList: CommandSpec = {
  name: "token list",
  summary: "list a user's API tokens; secrets are never shown again",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  options: watchOptions,
  examples: ["token list root@pam"],
  doing: (input) => `list the tokens of ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    const { pve } = await cli.client();
    const columns = [
      { header: "TOKEN", field: "tokenid" },
      { header: "PRIVILEGE SEPARATION", field: "privsep", format: "boolean" },
      { header: "EXPIRES", field: "expire", format: "expiry" },
      { header: "COMMENT", field: "comment" },
    ] as const;
    await showRows(cli, input, columns, `${userid} has no tokens.`, () =>
      pve.list("/access/users/{userid}/token", { userid }),
    );
  },
};
