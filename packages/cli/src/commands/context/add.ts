import { resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { readSecretLine } from "../../secret-input.ts";
import { loadConfig, saveConfig, withContext } from "../../session/config-file.ts";
import { transportOptions } from "../../session/target.ts";

export const contextAdd: CommandSpec = {
  name: "context add",
  summary: "add a server without logging in",
  arguments: [
    { name: "<name>", about: "what to call it" },
    { name: "<url>", about: "https://HOST:8006" },
  ],
  options: [
    { flags: "--fingerprint <sha256>", about: "trust exactly this certificate" },
    { flags: "--ca-file <file>", about: "trust certificates of this CA (PEM)" },
    { flags: "--token-stdin", about: "read an API token, user@realm!id=SECRET, from standard input" },
  ],
  examples: ["context add lab https://10.0.0.5:8006 --fingerprint AB:CD:… --token-stdin < token.txt"],
  doing: (input) => `add context ${input.arg("name")}`,
  run: async (cli, input) => {
    const name = input.arg("name");
    const caFile = input.text("caFile");
    const context = {
      server: input.arg("url"),
      ...given({
        fingerprint: input.text("fingerprint"),
        caFile: caFile === undefined ? undefined : resolve(cli.io.cwd, caFile),
      }),
      ...(input.flag("tokenStdin") ? { token: await readToken(await readSecretLine(cli, "token")) } : {}),
    };
    // Refuses a bad URL, fingerprint or CA file now rather than at the first command.
    cli.io.connect(await transportOptions({ url: context.server, ...context })).close();
    const config = await loadConfig(cli.io);
    if (config.contexts[name] !== undefined) {
      throw new AppError("object.exists", `there is a context "${name}" already`, {
        data: { next: `Remove it first: gpvectl context remove ${name}.` },
      });
    }
    const added = withContext(config, name, context);
    await saveConfig(cli.io, { ...added, current: config.current ?? name });
    cli.out.done(`Added context ${name}.`);
  },
};

async function readToken(text: string): Promise<string> {
  const token = text.trim();
  if (/^[^\s!=]+@[^\s!=]+![^\s!=]+=\S+$/.test(token)) return token;
  throw new AppError("request.invalid", "standard input carries no token of the form user@realm!id=SECRET");
}
