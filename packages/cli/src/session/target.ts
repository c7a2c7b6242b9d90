// Which server, and as whom: --data, --context, the environment, the current context, this machine's own gpve.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Credentials, Ticket } from "@gpve/client/authentication.ts";
import { GpveClient } from "@gpve/client/client.ts";
import type { NodeTransportOptions } from "@gpve/client/node-transport.ts";
import type { GlobalOptions } from "../command.ts";
import type { CliIo } from "../io.ts";
import { type Context, loadConfig, saveConfig, withContext } from "./config-file.ts";
import { type LocalCredentials, readCredentials } from "./credentials-file.ts";

export interface Target {
  readonly url: string;
  readonly fingerprint?: string;
  readonly caFile?: string;
  readonly credentials: Credentials;
  /** "context lab", "data directory /x": for people. */
  readonly source: string;
  /** The context that keeps renewed tickets. */
  readonly context?: string;
}

export async function findTarget(io: CliIo, global: GlobalOptions): Promise<Target> {
  if (global.data !== undefined) {
    if (global.context !== undefined) {
      throw new AppError("request.invalid", "--data and --context name two servers; give one of them");
    }
    const dir = resolve(io.cwd, global.data);
    const local = await readCredentials(dir);
    if (local !== undefined) return localTarget(local, dir);
    throw new AppError("object.not_found", `${dir} has no credentials.json`, {
      data: { next: `Start a gpve there: ./gpve up --detach --data ${dir}.` },
    });
  }
  const named = global.context ?? nonEmpty(io.env["GPVE_CONTEXT"]);
  const url = nonEmpty(io.env["GPVE_URL"]);
  if (named === undefined && url !== undefined) return environmentTarget(io, url);
  const config = await loadConfig(io);
  const name = named ?? config.current;
  const context = name === undefined ? undefined : config.contexts[name];
  if (name !== undefined && context !== undefined) return contextTarget(name, context);
  if (name !== undefined) {
    throw new AppError("object.not_found", `there is no context "${name}"`, {
      data: { next: "See what there is: gpvectl context list, without --context." },
    });
  }
  const local = io.localDataDir === undefined ? undefined : await readCredentials(io.localDataDir);
  if (local !== undefined) return localTarget(local, io.localDataDir ?? "");
  throw new AppError("config.invalid", "no server is chosen", {
    data: {
      next: "Log in with gpvectl login https://HOST:8006, name a data directory with --data DIR, or start a gpve on this machine: ./gpve up --detach.",
    },
  });
}

export async function openClient(io: CliIo, target: Target, timeoutMs?: number): Promise<GpveClient> {
  const { context } = target;
  return new GpveClient({
    transport: io.connect(await transportOptions(target, timeoutMs)),
    credentials: target.credentials,
    clock: io.clock,
    ...(context === undefined ? {} : { onTicket: (ticket) => void keepTicket(io, context, ticket) }),
  });
}

export async function transportOptions(
  target: Pick<Target, "url" | "fingerprint" | "caFile">,
  timeoutMs?: number,
): Promise<NodeTransportOptions> {
  const { url, fingerprint, caFile } = target;
  return {
    url,
    ...given({ fingerprint }),
    ...(caFile === undefined ? {} : { ca: await readCa(caFile) }),
    ...given({ timeoutMs }),
  };
}

/** A renewed ticket is only a convenience: when it cannot be kept, the next command renews again. */
async function keepTicket(io: CliIo, name: string, ticket: Ticket): Promise<void> {
  try {
    const config = await loadConfig(io);
    const context = config.contexts[name];
    if (context !== undefined) await saveConfig(io, withContext(config, name, { ...context, ticket }));
  } catch (err) {
    io.stderr.write(`gpvectl: the renewed session was not kept: ${String(err)}\n`);
  }
}

function localTarget(local: LocalCredentials, dir: string): Target {
  const { url, fingerprint, caFile, username, password, token } = local;
  let credentials: Credentials = { kind: "anonymous" };
  if (token !== undefined && username !== undefined && password !== undefined) {
    credentials = { kind: "token-or-password", token, username, password };
  } else if (token !== undefined) credentials = { kind: "token", token };
  else if (username !== undefined && password !== undefined) {
    credentials = { kind: "password", username, password };
  }
  return {
    url,
    ...given({ fingerprint, caFile }),
    credentials,
    source: `data directory ${dir}`,
  };
}

function contextTarget(name: string, context: Context): Target {
  const { server: url, fingerprint, caFile, token, ticket } = context;
  let credentials: Credentials = { kind: "anonymous" };
  if (token !== undefined) credentials = { kind: "token", token };
  else if (ticket !== undefined) credentials = { kind: "ticket", ticket };
  return {
    url,
    ...given({ fingerprint, caFile }),
    credentials,
    source: `context ${name}`,
    context: name,
  };
}

function environmentTarget(io: CliIo, url: string): Target {
  const token = nonEmpty(io.env["GPVE_TOKEN"]);
  const fingerprint = nonEmpty(io.env["GPVE_FINGERPRINT"]);
  const caFile = nonEmpty(io.env["GPVE_CA_FILE"]);
  return {
    url,
    ...given({ fingerprint, caFile }),
    credentials: token === undefined ? { kind: "anonymous" } : { kind: "token", token },
    source: "environment (GPVE_URL)",
  };
}

async function readCa(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (err) {
    throw new AppError("config.invalid", `cannot read the CA file ${path}`, { cause: err });
  }
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
