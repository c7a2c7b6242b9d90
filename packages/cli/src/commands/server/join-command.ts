import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";
import { joinEndpoints, plain, unreachable } from "../node/join-endpoints.ts";

export const serverJoinCommand: CommandSpec = {
  name: "server join-command",
  summary: "print the one command with which a further server joins",
  details:
    "The new machine gets the key of the cluster's secrets and the way to etcd, and writes its own configuration: no file is copied by hand. The command carries a token that works once, ends after --ttl and is bound to this cluster's CA; whoever has it becomes a server. Root alone makes one, and only where the store is etcd.",
  options: [
    { flags: "--node <name>", about: "only a machine of this name may use it" },
    { flags: "--address <address>", about: "where the new server listens (0.0.0.0)" },
    { flags: "--endpoint <url>", about: "where the new machine reaches this server (the one asked now)" },
    { flags: "--ttl <duration>", about: "how long it works (1h)", parse: durationSeconds },
  ],
  examples: ["server join-command --node n2 --endpoint https://10.0.0.5:8006 --ttl 15m"],
  doing: () => "make a join command for a server",
  run: async (cli, input) => {
    const client = await cli.client();
    const node = plain("node", input.text("node"));
    const address = plain("address", input.text("address"));
    const body = given({ node, ttlSeconds: input.number("ttl") });
    const answer = await client.v1.post("server-join-tokens", body);
    const token = isObject(answer) ? answer["token"] : undefined;
    if (!isObject(answer) || typeof token !== "string")
      throw new AppError("internal.error", "the server's answer carries no join token");
    const [endpoint = ""] = joinEndpoints(input.text("endpoint"), client.origin, answer["servers"]);
    if (!cli.out.forPeople) {
      cli.out.data({ endpoint, ...answer });
      return;
    }
    const names = node === undefined ? "" : ` --node ${node}`;
    const where = address === undefined ? "" : ` --address ${address}`;
    // On standard input, so that the token never becomes an argument of a process.
    cli.out.line(
      `./gpve server join --endpoint ${endpoint}${names}${where} <<EOF && ./gpve server\n${token}\nEOF`,
    );
    const expires = answer["expiresAt"];
    cli.out.note(
      `Run it on the new machine${typeof expires === "string" ? ` before ${expires}` : ""}; it works once, and is a secret.`,
    );
    const problem = unreachable(endpoint);
    if (problem !== undefined) cli.out.note(problem);
  },
};
