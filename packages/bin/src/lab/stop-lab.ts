// `gpve down` for several nodes: servers, agents and etcd stop and guests run on; with --guests nothing is left.
import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import { hostHierarchies } from "@gpve/agent/infrastructure/cgroup/hierarchies.ts";
import { ignore } from "@gpve/kit/background.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Io } from "../io.ts";
import { selfCommand } from "../self-command.ts";
import { namespaces, removeLabNetwork } from "./lab-network.ts";
import type { Lab, LabNode } from "./lab-plan.ts";
import { enterNode } from "./node-parts.ts";
import { marksOf, nodeProcesses, signalNode } from "./node-processes.ts";
import { stopAgents, stopNodes } from "./start-lab.ts";

/** What guests have to switch themselves off; then they are ended, so that all is over within two minutes. */
const GUESTS_TIMEOUT_MS = 75_000;
const GONE_TIMEOUT_MS = 10_000;
const NAMESPACES = "/run/netns";

/**
 * While leases can still be renewed: guests under HA would otherwise lose their power instead of being shut down. Agents
 * are stopped first, so that nobody starts them again.
 */
export async function shutDownLabGuests(lab: Lab): Promise<readonly string[]> {
  for (const node of lab.nodes) signalNode(node, "SIGCONT");
  await stopAgents(lab);
  return Promise.all((await standing(lab)).map((node) => shutDownGuests(lab, node)));
}

/** `ended`: what became of the guests; undefined = they run on. */
export async function stopLab(lab: Lab, ended: readonly string[] | undefined, io: Io): Promise<void> {
  await stopNodes(lab);
  if (ended === undefined) {
    const left = lab.nodes.reduce((sum, node) => sum + guestsOn(node), 0);
    io.out(
      `gpve stopped: all nodes are down, ${left === 0 ? "no guests were running" : `guests run on: ${left}`}`,
    );
    return;
  }
  await Promise.all((await standing(lab)).map(endNode));
  for (const line of ended) io.out(line);
  await removeLabNetwork(lab);
  io.out("gpve stopped: all nodes are down, their networks are removed");
}

async function standing(lab: Lab): Promise<readonly LabNode[]> {
  const spaces = new Set(await namespaces());
  return lab.nodes.filter(({ namespace }) => spaces.has(namespace));
}

/** As `down --guests` on the node itself. */
async function shutDownGuests(lab: Lab, node: LabNode): Promise<string> {
  const [enter = "", ...inside] = enterNode(lab, node);
  let said: string;
  try {
    const { stdout } = await exec(
      enter,
      [...inside, ...selfCommand(), "down", "--data", lab.nodeData, "--guests"],
      {
        timeoutMs: GUESTS_TIMEOUT_MS,
        label: `gpve down on ${node.name}`,
      },
    );
    said = stdout.trim().replace(/^.*are down, /, "");
  } catch (err) {
    said = `the guests were ended: ${messageOf(err)}`;
  }
  return `${node.name}: ${said}`;
}

/** Whoever has not gone has lost its power. */
async function endNode(node: LabNode): Promise<void> {
  signalNode(node, "SIGKILL");
  const end = performance.now() + GONE_TIMEOUT_MS;
  while (nodeProcesses(node).length > 0 && performance.now() < end) {
    signalNode(node, "SIGKILL");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { instanceId } = marksOf(node);
  if (instanceId !== undefined) {
    // Threads of a process that has ended may be in its group for a moment.
    const until = performance.now() + GONE_TIMEOUT_MS;
    while (!removeGroups(instanceId) && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 50));
    await removeClusterNamespaces(instanceId);
  }
}

/** Guests and virtual clusters of a node that lost its power leave their groups behind. True when none is left. */
function removeGroups(instanceId: string): boolean {
  const { v1, v2 } = hostHierarchies();
  const mounts = [...new Set([...v1.values(), ...(v2 === undefined ? [] : [v2])])];
  const groups = mounts.flatMap((mount) =>
    [`gpve-${instanceId}`, `gpve-${instanceId}-vc`].map((name) => join(mount, name)),
  );
  for (const group of groups) if (existsSync(group)) removeGroup(group);
  return !groups.some((group) => existsSync(group));
}

/** Those of virtual clusters: with the node's own mounts they are gone, and their files are this machine's. */
async function removeClusterNamespaces(instanceId: string): Promise<void> {
  const ours = readdirSync(NAMESPACES).filter((name) => name.startsWith(`gpve-${instanceId}-vc`));
  for (const name of ours) await exec("ip", ["netns", "delete", name]);
}

function removeGroup(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) removeGroup(join(folder, entry.name));
  try {
    rmdirSync(folder);
  } catch (err) {
    ignore(err, "a process that is just ending is still in it");
  }
}

function guestsOn(node: LabNode): number {
  return new Set(
    nodeProcesses(node).flatMap(
      ({ cgroups }) => /\/gpve-[0-9a-f]{6}\/guest-(\d+)$/m.exec(cgroups)?.[1] ?? [],
    ),
  ).size;
}
