import type { CommandSpec } from "../../command.ts";
import { splitTokenName } from "./token-name.ts";

export const tokenDelete: CommandSpec = {
  name: "token delete",
  summary: "delete an API token; whoever uses it is locked out at once",
  arguments: [{ name: "<token>", about: "user@realm!id" }],
  examples: ["token delete 'ci@pve!build'"],
  doing: (input) => `delete token ${input.arg("token")}`,
  run: async (cli, input) => {
    const name = splitTokenName(input.arg("token"));
    const { pve } = await cli.client();
    await pve.delete("/access/users/{userid}/token/{tokenid}", name);
    cli.out.done(`Deleted token ${input.arg("token")}.`);
  },
};
