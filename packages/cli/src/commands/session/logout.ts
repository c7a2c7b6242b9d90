import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { loadConfig, saveConfig, withContext } from "../../session/config-file.ts";

export const logout: CommandSpec = {
  name: "logout",
  summary: "forget the credentials of a context; the server stays known",
  details: "Acts on the current context, or on the one that --context names.",
  doing: () => "log out",
  run: async (cli) => {
    const config = await loadConfig(cli.io);
    const name = cli.global.context ?? config.current;
    const context = name === undefined ? undefined : config.contexts[name];
    if (name === undefined || context === undefined) {
      throw new AppError("object.not_found", "there is no context to log out of", {
        data: { next: "See what there is: gpvectl context list." },
      });
    }
    const { ticket: _ticket, token: _token, ...rest } = context;
    await saveConfig(cli.io, withContext(config, name, rest));
    cli.out.done(`Logged out of ${name}.`);
  },
};
