import type { CommandSpec } from "../../command.ts";
import { newPassword, passwordStdinOption } from "../../secret-input.ts";
import { userOptions } from "./columns.ts";
import { userFields } from "./fields.ts";

export const userCreate: CommandSpec = {
  name: "user create",
  summary: "create a user",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  options: [
    ...userOptions,
    { flags: "--disabled", about: "create it disabled" },
    { flags: "--password", about: "ask for a password" },
    passwordStdinOption,
  ],
  examples: [
    "user create joe@pve --password --groups admins",
    "user create ci@pve --comment 'build robot'",
    "user create joe@pve --password-stdin < secret.txt",
  ],
  doing: (input) => `create user ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    const fields = userFields(input);
    const wanted = input.flag("password") || input.flag("passwordStdin");
    const password = wanted ? { password: await newPassword(cli, input, userid) } : {};
    const enable = input.flag("disabled") ? { enable: false } : {};
    const { pve } = await cli.client();
    await pve.post("/access/users", { userid, ...fields, ...enable, ...password });
    cli.out.done(`Created user ${userid}.`);
  },
};
