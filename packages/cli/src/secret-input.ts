// Secrets come from the terminal (not echoed) or from standard input, never from the command line, where every
// user of the machine could read them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, OptionSpec } from "./command.ts";
import type { Input } from "./input.ts";

export const passwordStdinOption: OptionSpec = {
  flags: "--password-stdin",
  about: "read the password from standard input",
};

export async function readSecretLine(cli: Cli, what: string): Promise<string> {
  const secret = (await cli.io.readStdin()).replace(/\r?\n$/, "");
  if (secret === "") throw new AppError("request.invalid", `standard input carries no ${what}`);
  return secret;
}

/** Asks twice on a terminal. */
export async function newPassword(cli: Cli, input: Input, forWhom: string): Promise<string> {
  if (input.flag("passwordStdin")) return readSecretLine(cli, "password");
  const first = await cli.io.ask(`New password for ${forWhom}: `, { hidden: true });
  const second = await cli.io.ask("The same again: ", { hidden: true });
  if (first !== second) throw new AppError("request.invalid", "the two passwords differ");
  return first;
}
