import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { expireSeconds } from "../user/fields.ts";
import { splitTokenName } from "./token-name.ts";

export const tokenCreate: CommandSpec = {
  name: "token create",
  summary: "create an API token and print its secret, once",
  details:
    "A token has only the permissions granted to itself, unless --full-privileges gives it all of its user's.",
  arguments: [{ name: "<token>", about: "user@realm!id" }],
  options: [
    { flags: "--comment <text>", about: "free text" },
    { flags: "--expire <date>", about: "token ends then: 2027-01-31, an RFC 3339 time, or never" },
    { flags: "--full-privileges", about: "no privilege separation: the token may do all its user may" },
  ],
  examples: ["token create 'ci@pve!build'", "token create 'root@pam!backup' --full-privileges -o json"],
  doing: (input) => `create token ${input.arg("token")}`,
  run: async (cli, input) => {
    const name = splitTokenName(input.arg("token"));
    const expire = input.text("expire");
    const { pve } = await cli.client();
    const answer = await pve.post("/access/users/{userid}/token/{tokenid}", {
      ...name,
      ...given({
        comment: input.text("comment"),
        expire: expire === undefined ? undefined : expireSeconds(expire),
      }),
      ...(input.flag("fullPrivileges") ? { privsep: false } : {}),
    });
    if (!cli.out.forPeople) {
      cli.out.data(answer);
      return;
    }
    cli.out.line(`${input.arg("token")}=${isObject(answer) ? String(answer["value"]) : ""}`);
    cli.out.note("Keep it now: the secret is not shown again.");
  },
};
