import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { loadConfig, saveConfig } from "../../session/config-file.ts";

export const contextUse: CommandSpec = {
  name: "context use",
  summary: "choose the server that commands talk to",
  arguments: [{ name: "<name>", about: "the context's name" }],
  doing: (input) => `use context ${input.arg("name")}`,
  run: async (cli, input) => {
    const name = input.arg("name");
    const config = await loadConfig(cli.io);
    if (config.contexts[name] === undefined) {
      throw new AppError("object.not_found", `there is no context "${name}"`);
    }
    await saveConfig(cli.io, { ...config, current: name });
    cli.out.done(`Commands now go to ${name}.`);
  },
};
