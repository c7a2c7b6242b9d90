// `gpve up --nodes N`: makes what is missing of the cluster, starts what does not run, and follows a living server.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { GpveClient } from "@gpve/client/client.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestLeaseFile } from "@gpve/agent/infrastructure/net/nat/guest-network.ts";
import { keepGuestNetwork } from "@gpve/agent/infrastructure/net/nat/make-guest-network.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { formatUrl, type ListenAddress } from "../commands/options.ts";
import type { CredentialsFile } from "../commands/welcome.ts";
import { ensureLabNetwork, labGuestNetwork } from "./lab-network.ts";
import { AGENT_PORT, etcdUrls, SERVER_PORT, serverUrl, type Lab, type LabNode } from "./lab-plan.ts";
import { etcdFiles, hasCertificates, prepareSecrets, shareCertificate } from "./lab-secrets.ts";
import { forgetPowerLoss, keepWatchdogs, resetNode, watchdogFile } from "./lab-watchdog.ts";
import { followLivingServer, httpsProbe } from "./living-server.ts";
import { startPart, stopFence, stopPart } from "./node-parts.ts";

const ONLINE_TIMEOUT_MS = 120_000;
const STOP_PATIENCE_MS = 10_000;
/** Every kind that a directory can hold. */
const SHARED_CONTENT = "images,rootdir,iso,vztmpl,backup,snippets,import";

export interface RunningLab {
  readonly port: number;
  stop(): Promise<void>;
}

/** `said` tells a person what is being done. */
export async function startLab(
  lab: Lab,
  listen: ListenAddress,
  deps: { readonly log: Logger; readonly said: (line: string) => void },
): Promise<RunningLab> {
  const { log, said } = deps;
  said(`network: nodes ${lab.subnet}, guests on ${lab.guestBridge}`);
  await ensureLabNetwork(lab);
  await prepareSecrets(lab);
  for (const node of lab.nodes) writeServerConfig(lab, node, listen);
  said("etcd");
  await Promise.all(lab.nodes.filter(({ isMember }) => isMember).map((node) => startPart(lab, node, "etcd")));
  said("servers");
  const [first] = lab.nodes;
  if (first === undefined) throw new AppError("internal.error", "a lab has nodes");
  if (!hasCertificates(lab)) {
    await startPart(lab, first, "server");
    shareCertificate(lab);
  }
  await Promise.all(lab.nodes.map((node) => startPart(lab, node, "server")));
  await credentialsWritten(first);
  const client = clientOf(first);
  try {
    said("agents");
    await ensureSharedStorage(client, lab);
    for (const node of lab.nodes) await ensureAgentConfig(client, lab, node);
    await Promise.all(lab.nodes.map((node) => startPart(lab, node, "agent")));
    await allOnline(client, lab);
  } finally {
    client.close();
  }
  const prober = httpsProbe(() => readFileSync(caFileOf(first), "utf8"));
  const backends = lab.nodes.map(({ address }) => ({ host: address, port: SERVER_PORT }));
  const front = await followLivingServer({ listen, backends, probe: prober.probe });
  writeCredentials(lab, first, formatUrl({ host: listen.host, port: front.port }));
  const stopKeeping = new AbortController();
  const kept = keepGuestNetwork(labGuestNetwork(lab), { clock: systemClock, log }, stopKeeping.signal);
  background(log, "the guests' network", kept);
  const watched = keepWatchdogs(lab, { clock: systemClock, log, reset: resetNode }, stopKeeping.signal);
  background(log, "the nodes' watchdogs", watched);
  return {
    port: front.port,
    async stop() {
      stopKeeping.abort();
      await front.close();
      prober.close();
      await stopNodes(lab);
    },
  };
}

/** Guests run on, but for those under HA: without a store there is no lease on them. */
export async function stopNodes(lab: Lab): Promise<void> {
  await stopAgents(lab);
  await Promise.all(lab.nodes.map((node) => stopFence(node, STOP_PATIENCE_MS)));
  for (const part of ["server", "etcd"] as const)
    await Promise.all(lab.nodes.map((node) => stopPart(node, part, STOP_PATIENCE_MS)));
}

export async function stopAgents(lab: Lab): Promise<void> {
  await Promise.all(lab.nodes.map((node) => stopPart(node, "agent", STOP_PATIENCE_MS)));
}

/** What `lab heal` does for a node that has lost its power: it boots. */
export async function startNodeParts(lab: Lab, node: LabNode): Promise<void> {
  forgetPowerLoss(node);
  if (node.isMember) await startPart(lab, node, "etcd");
  await startPart(lab, node, "server");
  await startPart(lab, node, "agent");
}

function writeServerConfig(lab: Lab, node: LabNode, listen: ListenAddress): void {
  const wildcard = listen.host === "0.0.0.0" || listen.host === "::";
  const names = lab.nodes.flatMap(({ name, address }) => [name, address]);
  const config = {
    apiVersion: "gpve.io/v1",
    kind: "ServerConfiguration",
    dataDir: lab.nodeData,
    server: {
      address: node.address,
      port: SERVER_PORT,
      names: [...names, lab.gateway, ...(wildcard ? [] : [listen.host])],
    },
    cluster: { name: "lab", etcd: { endpoints: etcdUrls(lab), ...etcdFiles(lab.nodeData) } },
    logging: { output: join(lab.nodeData, "log", "server.jsonl") },
  };
  writeFileAtomic(join(node.folder, "server.yaml"), asYaml(config));
}

/** JSON is YAML. */
function asYaml(config: unknown): string {
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/** A node that has joined needs no token any more; its file is left as it is. */
async function ensureAgentConfig(client: GpveClient, lab: Lab, node: LabNode): Promise<void> {
  const file = join(node.folder, "agent.yaml");
  if (existsSync(file) && existsSync(join(node.folder, "pki", "agent.pem"))) return;
  const answer = await client.v1.raw("POST", "join-tokens", { body: { node: node.name } });
  const { token } = answer as { readonly token: string };
  const config = {
    apiVersion: "gpve.io/v1",
    kind: "AgentConfiguration",
    dataDir: lab.nodeData,
    agent: { nodeName: node.name, address: node.address, port: AGENT_PORT },
    server: { endpoints: [node, ...lab.nodes.filter((other) => other !== node)].map(serverUrl), token },
    ha: { watchdog: `file:${watchdogFile(lab.nodeData)}` },
    network: { leaseFile: guestLeaseFile(lab.data, lab.guestBridge) },
    logging: { output: join(lab.nodeData, "log", "agent.jsonl") },
  };
  writeFileAtomic(file, asYaml(config));
}

async function ensureSharedStorage(client: GpveClient, lab: Lab): Promise<void> {
  const known = await client.pve.list("/storage");
  if (known.some((row) => row["storage"] === "shared")) return;
  await client.pve.post("/storage", {
    storage: "shared",
    type: "dir",
    path: lab.sharedFolder,
    content: SHARED_CONTENT,
    shared: true,
  });
}

async function allOnline(client: GpveClient, lab: Lab): Promise<void> {
  const end = performance.now() + ONLINE_TIMEOUT_MS;
  for (;;) {
    const rows = await client.pve.list("/nodes");
    const online = new Set(rows.filter((row) => row["status"] === "online").map((row) => row["node"]));
    const missing = lab.nodes.filter(({ name }) => !online.has(name)).map(({ name }) => name);
    if (missing.length === 0) return;
    if (performance.now() > end)
      throw new AppError(
        "request.timeout",
        `not online after ${ONLINE_TIMEOUT_MS / 1000} s: ${missing.join(", ")}; see log/agent.log and log/agent.jsonl in ${lab.data.file("nodes")}`,
      );
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** A server listens before it has written down how to log in. */
async function credentialsWritten(node: LabNode): Promise<void> {
  const end = performance.now() + 30_000;
  while ((credentialsOf(node)?.url ?? "") === "") {
    if (performance.now() > end)
      throw new AppError("request.timeout", `the server of ${node.name} wrote no credentials.json`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function clientOf(node: LabNode): GpveClient {
  const credentials = credentialsOf(node);
  if (credentials === undefined)
    throw new AppError("internal.error", `no credentials.json in ${node.folder}`);
  return new GpveClient({
    transport: new NodeTransport({ url: credentials.url, ca: readFileSync(caFileOf(node), "utf8") }),
    credentials: { kind: "token", token: credentials.token },
    clock: systemClock,
  });
}

function credentialsOf(node: LabNode): CredentialsFile | undefined {
  return readJsonFile(join(node.folder, "credentials.json")) as CredentialsFile | undefined;
}

function caFileOf(node: LabNode): string {
  return join(node.folder, "pki", "ca.crt");
}

function writeCredentials(lab: Lab, first: LabNode, url: string): void {
  const own = credentialsOf(first);
  const caFile = lab.data.file("pki", "ca.crt");
  writeFileAtomic(caFile, readFileSync(caFileOf(first), "utf8"));
  const file = {
    ...own,
    url,
    urls: lab.nodes.map(serverUrl),
    nodes: lab.nodes.map(({ name }) => name),
    caFile,
  };
  writeFileAtomic(lab.data.file("credentials.json"), `${JSON.stringify(file, undefined, 2)}\n`);
}
