import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";
import { askToJoin } from "../server/ask-to-join.ts";

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
    const invitation = await askToJoin(cli, input, "join-tokens");
    if (invitation === undefined) return;
    const { endpoint, before } = invitation;
    cli.out.line(joinCommand(invitation));
    cli.out.note(`Run it on the new machine${before}; it works once.`);
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
