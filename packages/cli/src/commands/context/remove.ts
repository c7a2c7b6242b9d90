import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { loadConfig, saveConfig } from "../../session/config-file.ts";

export const contextRemove: CommandSpec = {
  name: "context remove",
  summary: "forget a server and its credentials",
  arguments: [{ name: "<name>", about: "the context's name" }],
  doing: (input) => `remove context ${input.arg("name")}`,
  run: async (cli, input) => {
    const name = input.arg("name");
    const config = await loadConfig(cli.io);
    const { [name]: gone, ...contexts } = config.contexts;
    if (gone === undefined) throw new AppError("object.not_found", `there is no context "${name}"`);
    await saveConfig(cli.io, { contexts, current: config.current === name ? undefined : config.current });
    cli.out.done(`Removed context ${name}.`);
  },
};
