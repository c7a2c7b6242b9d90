import type { CommandSpec } from "../../command.ts";
import { newPassword, passwordStdinOption } from "../../secret-input.ts";

export const userPassword: CommandSpec = {
  name: "user password",
  summary: "set a user's password",
  details: "Needs a login with a password; API tokens may not change passwords.",
  arguments: [{ name: "<userid>", about: "name@realm" }],
  options: [passwordStdinOption],
  examples: ["user password joe@pve", "user password joe@pve --password-stdin < secret.txt"],
  doing: (input) => `set the password of ${input.arg("userid")}`,
  run: async (cli, input) => {
    const userid = input.arg("userid");
    const password = await newPassword(cli, input, userid);
    const { pve } = await cli.client();
    await pve.put("/access/password", { userid, password });
    cli.out.done(`Set the password of ${userid}.`);
  },
};
