import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds, given } from "../../input.ts";

export const nodeJoinCommand: CommandSpec = {
  name: "node join-command",
  summary: "print the one command with which a new machine joins",
  details: "The command carries a token that works once and ends after --ttl. Treat it as a secret.",
  options: [
    { flags: "--node <name>", about: "only a node of this name may use it" },
    { flags: "--ttl <duration>", about: "how long it works (1h)", parse: durationSeconds },
  ],
  examples: ["node join-command --node n2 --ttl 15m"],
  doing: () => "make a join command",
  run: async (cli, input) => {
    const client = await cli.client();
    const body = given({ node: input.text("node"), ttlSeconds: input.number("ttl") });
    const answer = await client.v1.post("join-tokens", body);
    const token = isObject(answer) ? answer["token"] : undefined;
    if (!isObject(answer) || typeof token !== "string") {
      throw new AppError("internal.error", "the server's answer carries no join token");
    }
    if (!cli.out.forPeople) {
      cli.out.data({ server: client.origin, ...answer });
      return;
    }
    cli.out.line(joinCommand(client.origin, token, answer["caFingerprint"]));
    const expires = answer["expiresAt"];
    cli.out.note(
      `Run it on the new machine${typeof expires === "string" ? ` before ${expires}` : ""}; it works once.`,
    );
  },
};

function joinCommand(server: string, token: string, fingerprint: unknown): string {
  const pin = typeof fingerprint === "string" ? ` --ca-fingerprint ${fingerprint}` : "";
  return `./gpve join ${server} --token ${token}${pin}`;
}
