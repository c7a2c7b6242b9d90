// Contexts: which servers this person talks to, and as whom. The file holds secrets, so its mode is 0600.
import { mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { parseDocument, stringify } from "yaml";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Ticket } from "@gpve/client/authentication.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import type { CliIo } from "../io.ts";
import { yamlValue } from "../yaml-value.ts";

export interface Context {
  readonly server: string;
  readonly fingerprint?: string;
  readonly caFile?: string;
  readonly username?: string;
  readonly token?: string;
  readonly ticket?: Ticket;
}

export interface ClientConfig {
  readonly current: string | undefined;
  readonly contexts: Readonly<Record<string, Context>>;
}

export function configPath(io: CliIo): string {
  const chosen = io.env["GPVE_CONFIG"];
  if (chosen !== undefined && chosen !== "") return chosen;
  const base = io.env["XDG_CONFIG_HOME"];
  return join(base === undefined || base === "" ? join(io.homeDir, ".config") : base, "gpve", "config.yaml");
}

export async function loadConfig(io: CliIo): Promise<ClientConfig> {
  const path = configPath(io);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (err) {
    if (isMissingFile(err)) return { current: undefined, contexts: {} };
    throw new AppError("config.invalid", `cannot read ${path}`, { cause: err });
  }
  return parseConfig(text, path);
}

export function parseConfig(text: string, path: string): ClientConfig {
  const body = yamlValue(parseDocument(text), path, "config.invalid");
  if (body === null || body === undefined) return { current: undefined, contexts: {} };
  const contexts = isObject(body) ? (body["contexts"] ?? {}) : undefined;
  if (!isObject(body) || !isObject(contexts)) {
    throw new AppError("config.invalid", `${path}: "contexts" must be a map of names`);
  }
  const parsed = Object.entries(contexts).map(
    ([name, value]) => [name, parseContext(value, name, path)] as const,
  );
  const current = body["current"];
  return { current: typeof current === "string" ? current : undefined, contexts: Object.fromEntries(parsed) };
}

/** Replaces the file as a whole: a reader sees the old or the new one, never half. */
export async function saveConfig(io: CliIo, config: ClientConfig): Promise<void> {
  const path = configPath(io);
  const body = {
    apiVersion: "gpve.io/v1",
    kind: "ClientConfig",
    ...given({ current: config.current }),
    contexts: config.contexts,
  };
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    writeFileAtomic(path, stringify(body), 0o600);
  } catch (err) {
    throw new AppError("config.invalid", `cannot write ${path}`, { cause: err });
  }
}

export function withContext(config: ClientConfig, name: string, context: Context): ClientConfig {
  return { ...config, contexts: { ...config.contexts, [name]: context } };
}

function parseContext(value: unknown, name: string, path: string): Context {
  const server = isObject(value) ? value["server"] : undefined;
  if (!isObject(value) || typeof server !== "string") {
    throw new AppError("config.invalid", `${path}: context "${name}" has no server`);
  }
  const text = (key: "fingerprint" | "caFile" | "username" | "token"): object => {
    const given = value[key];
    return typeof given === "string" ? { [key]: given } : {};
  };
  const ticket = parseTicket(value["ticket"]);
  return {
    server,
    ...text("fingerprint"),
    ...text("caFile"),
    ...text("username"),
    ...text("token"),
    ...given({ ticket }),
  };
}

function parseTicket(value: unknown): Ticket | undefined {
  if (!isObject(value)) return undefined;
  const { username, ticket, csrfToken, issuedAt } = value;
  return typeof username === "string" &&
    typeof ticket === "string" &&
    typeof csrfToken === "string" &&
    typeof issuedAt === "number"
    ? { username, ticket, csrfToken, issuedAt }
    : undefined;
}
