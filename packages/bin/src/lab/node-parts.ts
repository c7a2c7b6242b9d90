// What runs on a lab node: a member of etcd, a server and an agent, each started as it would be on a machine of its own.
import { rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { readFileTail } from "@gpve/kit/file-tail.ts";
import { inheritedEnv } from "@gpve/kit/own-program-env.ts";
import { identify, type ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { endProcess, livingProcess } from "../long-lived-process.ts";
import { selfCommand } from "../self-command.ts";
import { AGENT_PORT, ETCD_PEER_PORT, ETCD_PORT, SERVER_PORT, type Lab, type LabNode } from "./lab-plan.ts";
import { etcdFiles } from "./lab-secrets.ts";

export const partNames = ["etcd", "server", "agent"] as const;
export type PartName = (typeof partNames)[number];

const PORTS: Readonly<Record<PartName, number>> = { etcd: ETCD_PORT, server: SERVER_PORT, agent: AGENT_PORT };
const START_TIMEOUT_MS = 120_000;
const LAST_WORDS_BYTES = 2_000;

/**
 * Enters a node: its network, and a view of files in which /sys is that network's (with this machine's cgroups) and the
 * node's folder is at DIR/node. The view ends with the process. The script is always this one, and what it mounts and
 * starts are its parameters.
 */
const ENTER = [
  'mount --rbind /sys/fs/cgroup "$2"',
  "mount -t sysfs sysfs /sys",
  'mount --move "$2" /sys/fs/cgroup',
  'mount --bind "$1" "$2"',
  "shift 2",
  'exec "$@"',
].join(" && ");

export function enterNode(lab: Lab, node: LabNode): string[] {
  const network = ["nsenter", `--net=/run/netns/${node.namespace}`];
  return [...network, "unshare", "--mount", "--", "sh", "-c", ENTER, "sh", node.folder, lab.nodeData];
}

/** undefined = it does not run. */
export function runningPart(node: LabNode, part: PartName): ProcessIdentity | undefined {
  return livingProcess(noteOf(node, part));
}

/** Starts it unless it runs, and waits until its port answers. */
export async function startPart(lab: Lab, node: LabNode, part: PartName): Promise<void> {
  if (runningPart(node, part) === undefined) {
    const [file = "", ...args] = [...enterNode(lab, node), ...commandOf(lab, node, part)];
    const pid = spawnDetached(file, args, {
      logFile: logOf(node, part),
      cwd: "/",
      env: partEnv(process.env),
    });
    const identity = identify(pid);
    if (identity !== undefined) writeFileAtomic(noteOf(node, part), `${JSON.stringify(identity)}\n`);
  }
  const end = performance.now() + START_TIMEOUT_MS;
  while (!(await accepts(node.address, PORTS[part]))) {
    if (runningPart(node, part) === undefined || performance.now() > end) {
      const words = readFileTail(logOf(node, part), LAST_WORDS_BYTES).trim();
      throw new AppError(
        "internal.error",
        `${part} of node ${node.name} did not start; the last lines of ${logOf(node, part)}:\n${words}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function stopPart(node: LabNode, part: PartName, patienceMs: number): Promise<void> {
  const running = runningPart(node, part);
  if (running !== undefined) await endProcess(running, patienceMs);
  rmSync(noteOf(node, part), { force: true });
}

/** The agent started it, and it outlives the agent. */
export function runningFence(node: LabNode): ProcessIdentity | undefined {
  return livingProcess(join(node.folder, "run", "fence.lock"));
}

export async function stopFence(node: LabNode, patienceMs: number): Promise<void> {
  const running = runningFence(node);
  if (running !== undefined) await endProcess(running, patienceMs);
}

function commandOf(lab: Lab, node: LabNode, part: PartName): string[] {
  if (part === "etcd") return etcdCommand(lab, node);
  const config = join(lab.nodeData, `${part}.yaml`);
  const own = part === "server" ? ["--node", node.name] : [];
  return [...selfCommand(), part, "--config", config, "--data", lab.nodeData, ...own];
}

function etcdCommand(lab: Lab, node: LabNode): string[] {
  const { caFile, certFile, keyFile } = etcdFiles(lab.nodeData);
  const peer = (of: LabNode): string => `https://${of.address}:${ETCD_PEER_PORT}`;
  const clients = `https://${node.address}:${ETCD_PORT}`;
  const members = lab.nodes.filter(({ isMember }) => isMember);
  const options = {
    name: node.name,
    "data-dir": join(lab.nodeData, "etcd"),
    "initial-cluster": members.map((of) => `${of.name}=${peer(of)}`).join(","),
    "initial-cluster-token": `gpve-${lab.id}`,
    "listen-client-urls": clients,
    "advertise-client-urls": clients,
    "listen-peer-urls": peer(node),
    "initial-advertise-peer-urls": peer(node),
    "trusted-ca-file": caFile,
    "cert-file": certFile,
    "key-file": keyFile,
    "peer-trusted-ca-file": caFile,
    "peer-cert-file": certFile,
    "peer-key-file": keyFile,
  };
  const flags = ["--client-cert-auth", "--peer-client-cert-auth"];
  return ["etcd", ...Object.entries(options).map(([name, value]) => `--${name}=${value}`), ...flags];
}

/** Nodes of a lab are on one machine: they may share what virtual clusters are made of. */
const PASSED = new Set(["HOME", "TZ", "GPVE_COMPONENTS"]);

export function partEnv(own: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return { ...MINIMAL_ENV, ...inheritedEnv(own, (name) => PASSED.has(name)) };
}

function noteOf(node: LabNode, part: PartName): string {
  return join(node.folder, "run", `lab-${part}.json`);
}

function logOf(node: LabNode, part: PartName): string {
  return join(node.folder, "log", `${part}.log`);
}

function accepts(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: 1_000 });
    const done = (answer: boolean) => (): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", done(true)).once("timeout", done(false)).once("error", done(false));
  });
}
