import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const nodeOption: OptionSpec = {
  flags: "--node <name>",
  about: "the node whose storage is meant (the only one, where there is one)",
};

/** The node asked for; without one, the only node there is. */
export async function nodeOf(cli: Cli, input: Input): Promise<string> {
  const given = input.text("node");
  if (given !== undefined) return given;
  const { pve } = await cli.client();
  const names = (await pve.list("/nodes")).map((row) => String(row["node"]));
  const [only] = names;
  if (only !== undefined && names.length === 1) return only;
  throw new AppError(
    "request.invalid",
    `there are ${names.length} nodes: say which with --node (${names.join(", ")})`,
  );
}
