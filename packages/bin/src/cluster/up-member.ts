// What `gpve up` runs on a data directory whose node is of a cluster: a server in this process, and the node's agent
// beside it, as on every other machine of the cluster.
import { existsSync, readFileSync } from "node:fs";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { guestLeaseFile } from "@gpve/agent/infrastructure/net/nat/guest-network.ts";
import { keepGuestNetwork, makeGuestNetwork } from "@gpve/agent/infrastructure/net/nat/make-guest-network.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { parseServerConfiguration } from "@gpve/kit/config/configuration.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { exec } from "@gpve/kit/exec.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import type { RunningNode } from "../compose-node.ts";
import { readConfigFile } from "../config-file.ts";
import { readCredentials } from "../commands/welcome.ts";
import { serverSettings } from "../settings/server-settings.ts";
import { startServer } from "../start-server.ts";
import { keepAgent, stopAgent } from "./kept-agent.ts";
import { agentFile, serverFile, writeConfig, type MemberNote } from "./member-files.ts";

const ONLINE_TIMEOUT_MS = 120_000;

export async function upMember(
  data: DataDir,
  member: MemberNote,
  options: { readonly makeNetwork: boolean },
): Promise<RunningNode & { readonly host: string }> {
  const clock = systemClock;
  const settings = serverSettings(readConfigFile("server", serverFile(data), parseServerConfiguration));
  const log = createLogger({ component: "up", output: data.file("log", "gpve.jsonl") });
  const server = await startServer(settings, data, member.node);
  const stopping = new AbortController();
  const stop = async (): Promise<void> => {
    stopping.abort();
    await stopAgent(data);
    await server.stop();
    log.close();
  };
  try {
    const client = clientOf(data);
    try {
      await ensureAgentConfig(client, data, member, server.url);
      const network = options.makeNetwork ? await makeGuestNetwork(data, { exec, clock, log }) : undefined;
      if (network !== undefined)
        background(log, "the guests' network", keepGuestNetwork(network, { clock, log }, stopping.signal));
      background(log, "the agent of this node", keepAgent(data, clock, stopping.signal));
      await online(client, member.node, data);
    } finally {
      client.close();
    }
  } catch (err) {
    await stop();
    throw err;
  }
  return { name: member.node, host: settings.server.host, port: server.port, metricsUrl: undefined, stop };
}

/** A node that has joined needs no token any more; its file is left as it is, also where a person changed it. */
async function ensureAgentConfig(
  client: GpveClient,
  data: DataDir,
  { node, address, agentPort }: MemberNote,
  url: string,
): Promise<void> {
  const file = agentFile(data);
  if (existsSync(file) && existsSync(data.file("pki", "agent.pem"))) return;
  const answer = await client.v1.raw("POST", "join-tokens", { body: { node } });
  const { token, servers = [] } = answer as { readonly token: string; readonly servers?: readonly string[] };
  writeConfig(file, {
    apiVersion: "gpve.io/v1",
    kind: "AgentConfiguration",
    dataDir: data.path,
    agent: { nodeName: node, address, port: agentPort },
    server: { endpoints: [...new Set([url, ...servers])], token },
    network: { leaseFile: guestLeaseFile(data) },
    logging: { output: data.file("log", "agent.jsonl") },
  });
}

async function online(client: GpveClient, node: string, data: DataDir): Promise<void> {
  const end = performance.now() + ONLINE_TIMEOUT_MS;
  let last = "";
  while (performance.now() < end) {
    try {
      const rows = await client.pve.list("/nodes");
      if (rows.some((row) => row["node"] === node && row["status"] === "online")) return;
      last = "it is offline";
    } catch (err) {
      last = messageOf(err);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new AppError(
    "request.timeout",
    `node ${node} did not come online (${last}); see ${data.file("log", "agent.log")} and agent.jsonl beside it`,
  );
}

function clientOf(data: DataDir): GpveClient {
  const credentials = readCredentials(data);
  if (credentials === undefined) throw new AppError("internal.error", `no credentials.json in ${data.path}`);
  const { url, token, caFile } = credentials;
  return new GpveClient({
    transport: new NodeTransport({ url, ca: readFileSync(caFile, "utf8") }),
    credentials: { kind: "token", token },
    clock: systemClock,
  });
}
