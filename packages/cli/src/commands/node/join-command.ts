import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";

export const nodeJoinCommand: CommandSpec = {
  name: "node join-command",
  summary: "print the one command with which a new machine joins",
  details: [
    "The command writes a private configuration file and starts the agent with it. It carries a token that works",
    "once, ends after --ttl and is bound to this cluster's CA. Treat it as a secret.",
  ].join(" "),
  options: [
    { flags: "--node <name>", about: "only a node of this name may use it (the new machine's host name)" },
    { flags: "--address <address>", about: "where servers reach the new node (its first address)" },
    { flags: "--endpoint <url>", about: "where the new node reaches the server (the one asked now)" },
    { flags: "--ttl <duration>", about: "how long it works (1h)", parse: durationSeconds },
  ],
  examples: ["node join-command --node n2 --address 10.0.0.6 --ttl 15m"],
  doing: () => "make a join command",
  run: async (cli, input) => {
    const client = await cli.client();
    const node = plain("node", input.text("node"));
    const address = plain("address", input.text("address"));
    const endpoint = plain("endpoint", input.text("endpoint")) ?? client.origin;
    const answer = await client.v1.post("join-tokens", given({ node, ttlSeconds: input.number("ttl") }));
    const token = isObject(answer) ? answer["token"] : undefined;
    if (!isObject(answer) || typeof token !== "string") {
      throw new AppError("internal.error", "the server's answer carries no join token");
    }
    if (!cli.out.forPeople) {
      cli.out.data({ endpoint, ...answer });
      return;
    }
    cli.out.line(joinCommand({ endpoint, token, node, address }));
    const expires = answer["expiresAt"];
    cli.out.note(
      `Run it on the new machine${typeof expires === "string" ? ` before ${expires}` : ""}; it works once.`,
    );
    if (/^https:\/\/(127\.|localhost|\[::1\])/.test(endpoint)) {
      cli.out.note(
        `Other machines cannot reach ${endpoint}: name an address of this server with --endpoint.`,
      );
    }
  },
};

/** The shell fills in what only the new machine knows. The token never becomes an argument of a process. */
export function joinCommand(facts: {
  endpoint: string;
  token: string;
  node: string | undefined;
  address: string | undefined;
}): string {
  return [
    "(umask 077; cat > gpve-agent.yaml) <<EOF && ./gpve agent --config gpve-agent.yaml",
    "apiVersion: gpve.io/v1",
    "kind: AgentConfiguration",
    "agent:",
    `  nodeName: "${facts.node ?? "$(hostname -s)"}"`,
    `  address: "${facts.address ?? "$(hostname -I | cut -d' ' -f1)"}"`,
    "server:",
    `  endpoint: "${facts.endpoint}"`,
    `  token: "${facts.token}"`,
    "EOF",
  ].join("\n");
}

/** The text becomes part of a shell command. */
function plain(option: string, text: string | undefined): string | undefined {
  if (text === undefined || /^[A-Za-z0-9.:/[\]-]+$/.test(text)) return text;
  throw new AppError("request.invalid", `--${option} "${text}" has characters that cannot be part of it`);
}
