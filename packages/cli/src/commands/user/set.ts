import type { CommandSpec } from "../../command.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { userOptions } from "./columns.ts";
import { userFields } from "./fields.ts";

export const userSet: CommandSpec = {
  name: "user set",
  summary: "change a user",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  options: [
    ...userOptions,
    { flags: "--enable", about: "let the user log in" },
    { flags: "--disable", about: "keep the user from logging in" },
    { flags: "--append-groups", about: "add --groups to the user's groups instead of replacing them" },
  ],
  examples: ["user set joe@pve --disable", "user set joe@pve --groups ops --append-groups"],
  doing: (input) => `change user ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    if (input.flag("enable") && input.flag("disable")) {
      throw new AppError("request.invalid", "--enable and --disable exclude each other");
    }
    const enable = input.flag("enable") || input.flag("disable") ? { enable: input.flag("enable") } : {};
    const append = input.flag("appendGroups") ? { append: true } : {};
    const { pve } = await cli.client();
    await pve.put("/access/users/{userid}", { userid, ...userFields(input), ...enable, ...append });
    cli.out.done(`Changed user ${userid}.`);
  },
};
