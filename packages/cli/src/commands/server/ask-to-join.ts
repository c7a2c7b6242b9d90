// Asks for a token with which a machine joins, as an agent or as a server.
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cli } from "../../command.ts";
import type { Input } from "../../input.ts";

export interface Invitation {
  readonly endpoint: string;
  readonly token: string;
  readonly node: string | undefined;
  readonly address: string | undefined;
  /** " before 2026-01-01T00:00:00Z", for a sentence. */
  readonly before: string;
}

/** undefined = a program asked, and has its answer. */
export async function askToJoin(
  cli: Cli,
  input: Input,
  tokens: "join-tokens" | "server-join-tokens",
): Promise<Invitation | undefined> {
  const client = await cli.client();
  const node = plain("node", input.text("node"));
  const address = plain("address", input.text("address"));
  const endpoint = plain("endpoint", input.text("endpoint")) ?? client.origin;
  const answer = await client.v1.post(tokens, given({ node, ttlSeconds: input.number("ttl") }));
  const token = isObject(answer) ? answer["token"] : undefined;
  if (!isObject(answer) || typeof token !== "string")
    throw new AppError("internal.error", "the server's answer carries no join token");
  if (!cli.out.forPeople) {
    cli.out.data({ endpoint, ...answer });
    return undefined;
  }
  const expires = answer["expiresAt"];
  const before = typeof expires === "string" ? ` before ${expires}` : "";
  return { endpoint, token, node, address, before };
}

/** The text becomes part of a shell command. */
function plain(option: string, text: string | undefined): string | undefined {
  if (text === undefined || /^[A-Za-z0-9.:/[\]-]+$/.test(text)) return text;
  throw new AppError("request.invalid", `--${option} "${text}" has characters that cannot be part of it`);
}
