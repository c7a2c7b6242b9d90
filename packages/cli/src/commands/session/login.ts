import { resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { GpveClient } from "@gpve/client/client.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { passwordStdinOption, readSecretLine } from "../../secret-input.ts";
import {
  type ClientConfig,
  type Context,
  loadConfig,
  saveConfig,
  withContext,
} from "../../session/config-file.ts";
import { transportOptions } from "../../session/target.ts";

export const login: CommandSpec = {
  name: "login",
  summary: "log in to a server and remember it as a context",
  details: [
    "Keeps a session ticket, never the password. A ticket ends two hours after its last renewal; for scripts",
    "use an API token (gpvectl context add --token-stdin). A certificate that nobody vouches for is shown, and",
    "trusted from then on when you say yes.",
  ].join(" "),
  arguments: [{ name: "[url]", about: "https://HOST:8006; the current context's server when left out" }],
  options: [
    { flags: "-u, --username <userid>", about: "name@realm (root@pam)" },
    passwordStdinOption,
    { flags: "--fingerprint <sha256>", about: "trust exactly this certificate" },
    { flags: "--ca-file <file>", about: "trust certificates of this CA (PEM)" },
    { flags: "--name <context>", about: "name of the context (the host's name)" },
  ],
  examples: [
    "login https://10.0.0.5:8006",
    "login https://10.0.0.5:8006 -u joe@pve --password-stdin < secret.txt",
    "login",
  ],
  doing: (input) => `log in to ${input.optionalArg("url") ?? "the current server"}`,
  run: async (cli, input) => {
    const config = await loadConfig(cli.io);
    const url = input.optionalArg("url");
    const name =
      input.text("name") ??
      (url === undefined ? (cli.global.context ?? config.current) : freeName(config, url));
    const known = name === undefined ? undefined : config.contexts[name];
    const server = url ?? known?.server;
    if (server === undefined || name === undefined) {
      throw new AppError("request.invalid", "no server is named; give its URL, https://HOST:8006");
    }
    const context = await trusted(cli, { ...sameServer(known, server), server, ...trustOptions(cli, input) });
    const username = input.text("username") ?? known?.username ?? "root@pam";
    const password = input.flag("passwordStdin")
      ? await readSecretLine(cli, "password")
      : await cli.io.ask(`Password for ${username} on ${server}: `, { hidden: true });
    const client = await connect(cli, context, { kind: "password", username, password });
    try {
      const ticket = await client.login().catch((err: unknown) => {
        if (!isAppError(err, "auth.failed")) throw err;
        const next = "Check the name (-u NAME@REALM) and the password.";
        throw new AppError("auth.failed", `${username}: ${err.message}`, { cause: err, data: { next } });
      });
      const kept = { ...context, username: ticket.username, ticket };
      await saveConfig(cli.io, { ...withContext(config, name, kept), current: name });
      cli.out.done(`Logged in to ${client.origin} as ${ticket.username}; context ${name}.`);
    } finally {
      client.close();
    }
  },
};

export function contextName(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : url;
}

/** The host's name; with the port when that name already means another server. */
function freeName(config: ClientConfig, url: string): string {
  const name = contextName(url);
  const taken = config.contexts[name];
  if (taken === undefined || taken.server === url || !URL.canParse(url)) return name;
  return `${name}-${new URL(url).port === "" ? "443" : new URL(url).port}`;
}

/** What was trusted before is kept, unless the context now means another server. */
function sameServer(known: Context | undefined, server: string): Pick<Context, "fingerprint" | "caFile"> {
  if (known === undefined || known.server !== server) return {};
  return given({ fingerprint: known.fingerprint, caFile: known.caFile });
}

function trustOptions(cli: Cli, input: Input): Pick<Context, "fingerprint" | "caFile"> {
  const caFile = input.text("caFile");
  return given({
    fingerprint: input.text("fingerprint"),
    caFile: caFile === undefined ? undefined : resolve(cli.io.cwd, caFile),
  });
}

/** Tries the server before any secret is sent; asks about a certificate that nobody vouches for. */
async function trusted(cli: Cli, context: Context): Promise<Context> {
  const client = await connect(cli, context, { kind: "anonymous" });
  try {
    await client.pve.get("/access/domains");
    return context;
  } catch (err) {
    const seen = isAppError(err) ? err.data["fingerprint"] : undefined;
    const pinned = context.fingerprint !== undefined;
    if (!isAppError(err) || err.data["untrusted"] !== true || typeof seen !== "string" || pinned) throw err;
    cli.out.note(`The certificate of ${context.server} is not known here. Its SHA-256 fingerprint is`);
    cli.out.note(`  ${seen}`);
    const question = "Compare it with what `gpve up` printed. Trust it? (yes/no) ";
    const answer = await cli.io.ask(question).catch(() => {
      const next = `If it is the one that \`gpve up\` printed, add: --fingerprint ${seen}`;
      throw new AppError(err.code, err.message, { cause: err, data: { ...err.data, next } });
    });
    if (answer.trim().toLowerCase() !== "yes") throw err;
    return { ...context, fingerprint: seen };
  } finally {
    client.close();
  }
}

async function connect(
  cli: Cli,
  context: Context,
  credentials: ConstructorParameters<typeof GpveClient>[0]["credentials"],
): Promise<GpveClient> {
  const transport = cli.io.connect(
    await transportOptions({ url: context.server, ...context }, cli.global.timeoutMs),
  );
  return new GpveClient({ transport, credentials, clock: cli.io.clock });
}
