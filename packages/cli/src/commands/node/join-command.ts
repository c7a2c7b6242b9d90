import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";
import { joinEndpoints, plain, unreachable } from "./join-endpoints.ts";

export const nodeJoinCommand: CommandSpec = {
  name: "node join-command",
  summary: "print the one command with which a new machine joins",
  details: [
    "The command writes a private configuration file and starts the agent with it. It carries a token that works",
    "once, ends after --ttl and is bound to this cluster's CA, and names every server that runs: the node reports to all of them. Treat it as a secret.",
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
    const answer = await client.v1.post("join-tokens", given({ node, ttlSeconds: input.number("ttl") }));
    const token = isObject(answer) ? answer["token"] : undefined;
    if (!isObject(answer) || typeof token !== "string") {
      throw new AppError("internal.error", "the server's answer carries no join token");
    }
    const endpoints = joinEndpoints(input.text("endpoint"), client.origin, answer["servers"]);
    const [endpoint = client.origin] = endpoints;
    if (!cli.out.forPeople) {
      cli.out.data({ endpoint, ...answer });
      return;
    }
    cli.out.line(joinCommand({ endpoints, token, node, address }));
    const expires = answer["expiresAt"];
    cli.out.note(
      `Run it on the new machine${typeof expires === "string" ? ` before ${expires}` : ""}; it works once.`,
    );
    const problem = unreachable(endpoint);
    if (problem !== undefined) cli.out.note(problem);
  },
};

/** The shell fills in what only the new machine knows. The token never becomes an argument of a process. */
export function joinCommand(facts: {
  endpoints: readonly string[];
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
    ...(facts.endpoints.length === 1
      ? [`  endpoint: "${facts.endpoints[0]}"`]
      : ["  endpoints:", ...facts.endpoints.map((endpoint) => `    - "${endpoint}"`)]),
    `  token: "${facts.token}"`,
    "EOF",
  ].join("\n");
}
