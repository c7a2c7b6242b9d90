// The cables of a lab. Two switches on the machine itself, and two cables from each node:
//
//   bridge "nodes" (the machine: .1) ---veth--- eth0 of each namespace      servers, agents, etcd
//   bridge "lan"   (NAT, DHCP, DNS)  ---veth--- vmbr0 of each namespace     guests
//
// A cut takes both cables out of their switches: frames vanish and nobody is told, as with a real one.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { guestNetwork } from "@gpve/agent/infrastructure/net/nat/guest-network.ts";
import { listInterfaces } from "@gpve/agent/infrastructure/net/interfaces.ts";
import type { NatBridge } from "@gpve/agent/infrastructure/net/nat/nat-bridge.ts";
import { natTable, natTableName } from "@gpve/agent/infrastructure/net/nat/nat-table.ts";
import { takenSubnets } from "@gpve/agent/infrastructure/net/nat/taken-subnets.ts";
import { freeSubnet, meets } from "@gpve/agent/infrastructure/net/nat/subnet.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Lab, LabNode } from "./lab-plan.ts";

const GUESTS_BRIDGE = "vmbr0";

/** A /24 for the nodes that this machine has not. */
export async function chooseNodeSubnet(): Promise<string> {
  const subnet = freeSubnet(await takenSubnets(exec));
  if (subnet !== undefined) return subnet;
  throw new AppError("capacity.exceeded", "no free subnet in 10.37.0.0/16 for the nodes' network");
}

/** The guests' network, with its DHCP; the machine itself is in it. */
export function labGuestNetwork(lab: Lab): NatBridge {
  return guestNetwork(lab.data, { bridge: lab.guestBridge, besideOthers: true });
}

/** Its nodes' addresses stay: certificates and etcd know them. Another lab may have taken them while this one was down. */
export function requireFree({ subnet, data }: Pick<Lab, "subnet" | "data">, taken: readonly string[]): void {
  if (!meets(subnet, taken)) return;
  throw new AppError(
    "config.invalid",
    `the network of this cluster's nodes, ${subnet}, is in use on this machine meanwhile (ip route shows by whom; another cluster of ./gpve up --nodes?): stop that first, or start a new one with another --data than ${data.path}`,
  );
}

/** Makes what is missing of it. Cables that were cut stay cut. */
export async function ensureLabNetwork(lab: Lab): Promise<void> {
  const links = new Set((await listInterfaces(exec)).map(({ name }) => name));
  if (!links.has(lab.nodeBridge)) {
    requireFree(lab, await takenSubnets(exec));
    await makeNodeBridge(lab);
  }
  await ip("address", "replace", `${lab.gateway}/24`, "dev", lab.nodeBridge);
  await ip("link", "set", "dev", lab.nodeBridge, "up");
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1\n");
  await labGuestNetwork(lab).ensure();
  await loadRules(lab);
  const spaces = new Set(await namespaces());
  for (const node of lab.nodes) {
    if (!spaces.has(node.namespace)) await makeNamespace(lab, node);
    else await repairCables(lab, node, links);
  }
}

export async function removeLabNetwork(lab: Lab): Promise<void> {
  const links = new Set((await listInterfaces(exec)).map(({ name }) => name));
  const drop = async (name: string): Promise<void> => {
    if (links.has(name)) await ip("link", "delete", "dev", name);
  };
  // Cables first: those of a namespace that is going vanish whenever the kernel gets to it.
  for (const { nodePort, guestPort } of lab.nodes) {
    await drop(nodePort);
    await drop(guestPort);
  }
  const spaces = new Set(await namespaces());
  for (const { namespace } of lab.nodes) if (spaces.has(namespace)) await ip("netns", "delete", namespace);
  await labGuestNetwork(lab).teardown();
  const { stdout } = await exec("nft", ["list", "tables"]);
  const table = natTableName(nodesTable(lab));
  if (stdout.split("\n").includes(`table ip ${table}`)) await exec("nft", ["delete", "table", "ip", table]);
  await drop(lab.nodeBridge);
}

export async function cutNode(_lab: Lab, node: LabNode): Promise<void> {
  for (const port of [node.nodePort, node.guestPort]) await ip("link", "set", "dev", port, "nomaster");
}

export async function healNode(lab: Lab, node: LabNode): Promise<void> {
  await ip("link", "set", "dev", node.nodePort, "master", lab.nodeBridge);
  await ip("link", "set", "dev", node.guestPort, "master", lab.guestBridge);
}

/** Names of the nodes whose cables are in no switch. */
export async function cutNodes(lab: Lab): Promise<ReadonlySet<string>> {
  const plugged = new Set(
    (await listInterfaces(exec)).filter(({ master }) => master !== undefined).map(({ name }) => name),
  );
  return new Set(lab.nodes.filter(({ nodePort }) => !plugged.has(nodePort)).map(({ name }) => name));
}

/** Names of the network namespaces that exist now. */
export async function namespaces(): Promise<string[]> {
  const { stdout } = await exec("ip", ["-j", "netns", "list"]);
  return (JSON.parse(stdout.trim() === "" ? "[]" : stdout) as { name: string }[]).map(({ name }) => name);
}

async function makeNamespace(lab: Lab, node: LabNode): Promise<void> {
  const inside = (...args: string[]): Promise<void> => ip("-n", node.namespace, ...args);
  await ip("netns", "add", node.namespace);
  await inside("link", "set", "lo", "up");
  await plug(node.nodePort, node.namespace, "eth0", lab.nodeBridge);
  await inside("address", "add", `${node.address}/24`, "dev", "eth0");
  await inside("link", "set", "eth0", "up");
  await inside("route", "add", "default", "via", lab.gateway);
  await inside("link", "add", "name", GUESTS_BRIDGE, "type", "bridge");
  await plug(node.guestPort, node.namespace, "lan0", lab.guestBridge);
  await inside("link", "set", "lan0", "master", GUESTS_BRIDGE, "up");
  await inside("link", "set", GUESTS_BRIDGE, "up");
}

/** A switch that somebody deleted was made anew, and has no cables. A cable whose switch stands was cut on purpose. */
async function repairCables(lab: Lab, node: LabNode, before: ReadonlySet<string>): Promise<void> {
  if (!before.has(lab.nodeBridge)) await ip("link", "set", "dev", node.nodePort, "master", lab.nodeBridge);
  if (!before.has(lab.guestBridge)) await ip("link", "set", "dev", node.guestPort, "master", lab.guestBridge);
}

async function plug(port: string, namespace: string, peer: string, bridge: string): Promise<void> {
  await ip("link", "add", port, "type", "veth", "peer", "name", peer, "netns", namespace);
  await ip("link", "set", "dev", port, "master", bridge, "up");
}

/** Its own address is fixed: otherwise it is that of its lowest cable, and another when that one is cut. */
async function makeNodeBridge({ nodeBridge, id }: Lab): Promise<void> {
  const mac = `02:67:70:${id.slice(0, 2)}:${id.slice(2, 4)}:${id.slice(4, 6)}`;
  await ip("link", "add", "name", nodeBridge, "address", mac, "type", "bridge");
}

function nodesTable(lab: Lab): string {
  return `${lab.id}_nodes`;
}

/** Nodes get out behind the machine's address. Guests do not get at them: the network of the nodes is not theirs. */
async function loadRules(lab: Lab): Promise<void> {
  const rules = natTable(nodesTable(lab), lab.nodeBridge, lab.subnet) as { nftables: unknown[] };
  const table = natTableName(nodesTable(lab));
  const chain = { family: "ip", table, name: "forward" };
  const from = (key: string, right: string): unknown => ({
    match: { op: "==", left: { meta: { key } }, right },
  });
  rules.nftables.push(
    { add: { chain: { ...chain, type: "filter", hook: "forward", prio: 0, policy: "accept" } } },
    {
      add: {
        rule: {
          family: "ip",
          table,
          chain: "forward",
          expr: [from("iifname", lab.guestBridge), from("oifname", lab.nodeBridge), { drop: null }],
        },
      },
    },
  );
  const file = join(lab.data.file("run"), "lab.nft.json");
  writeFileAtomic(file, JSON.stringify(rules));
  await exec("nft", ["-j", "-f", file]);
}

async function ip(...args: string[]): Promise<void> {
  await exec("ip", args);
}
