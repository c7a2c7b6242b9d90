import type { CommandSpec } from "../../command.ts";
import { loadConfig } from "../../session/config-file.ts";

export const contextList: CommandSpec = {
  name: "context list",
  summary: "list the servers you know",
  doing: () => "list contexts",
  run: async (cli) => {
    const config = await loadConfig(cli.io);
    // Secrets stay in the file.
    const rows = Object.entries(config.contexts).map(([name, context]) => ({
      name,
      current: name === config.current,
      server: context.server,
      as: context.token?.replace(/=.*/, "") ?? context.ticket?.username ?? context.username,
      login: context.token === undefined ? (context.ticket === undefined ? "none" : "ticket") : "token",
    }));
    cli.out.rows(
      rows,
      [
        { header: "NAME", field: "name" },
        { header: "CURRENT", field: "current", format: "boolean" },
        { header: "SERVER", field: "server" },
        { header: "AS", field: "as" },
        { header: "LOGIN", field: "login" },
      ],
      "No contexts. Make one: gpvectl login https://HOST:8006",
    );
  },
};
