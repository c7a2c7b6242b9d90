// What `acl grant` and `acl revoke` share.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ArgumentSpec, Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const aclArguments: readonly ArgumentSpec[] = [
  { name: "<path>", about: "where: /, /vms/100, /pool/dev, /nodes/n1, /storage/local" },
  { name: "<role>", about: "which role, such as PVEAdmin" },
];

export const aclOptions: readonly OptionSpec[] = [
  { flags: "--user <userid>", about: "for this user; may be given several times", many: true },
  { flags: "--group <group>", about: "for this group; may be given several times", many: true },
  {
    flags: "--token <tokenid>",
    about: "for this token, user@realm!id; may be given several times",
    many: true,
  },
];

export async function changeAcl(
  cli: Cli,
  input: Input,
  change: { delete?: true; propagate?: false },
): Promise<void> {
  const list = (option: string): string | undefined => {
    const names = input.texts(option);
    return names.length === 0 ? undefined : names.join(",");
  };
  const subjects = given({ users: list("user"), groups: list("group"), tokens: list("token") });
  if (Object.keys(subjects).length === 0) {
    throw new AppError("request.invalid", "nobody is named; give --user, --group or --token");
  }
  const { pve } = await cli.client();
  await pve.put("/access/acl", { path: input.arg("path"), roles: input.arg("role"), ...subjects, ...change });
}
