// Several nodes on one machine, as they are written down in DIR/lab.json: names, addresses and folders, chosen once.
//
//   DIR/nodes/n1, n2, ...   each node's own data directory
//   DIR/node                empty here; on each node its own folder is mounted there, so that all nodes have their data at
//                           the same path, as machines of a cluster do
//   DIR/shared              the storage that all have
import { existsSync, mkdirSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { isDataDir, openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";

export const SERVER_PORT = 8006;
export const AGENT_PORT = 8444;
export const ETCD_PORT = 2379;
export const ETCD_PEER_PORT = 2380;
/** More members than that make writes slower and nothing safer. */
const MAX_MEMBERS = 3;
const MIN_NODES = 3;
const MAX_NODES = 9;

export interface LabNode {
  readonly name: string;
  /** In the nodes' own network. */
  readonly address: string;
  /** Of the network namespace. */
  readonly namespace: string;
  /** Whether it has a member of etcd. */
  readonly isMember: boolean;
  /** The host's ends of its two cables. */
  readonly nodePort: string;
  readonly guestPort: string;
  /** DIR/nodes/NAME */
  readonly folder: string;
}

export interface Lab {
  readonly id: string;
  readonly data: DataDir;
  /** The nodes' own network, "10.37.1.0/24"; the machine itself has its first address. */
  readonly subnet: string;
  readonly gateway: string;
  readonly nodeBridge: string;
  readonly guestBridge: string;
  readonly nodes: readonly LabNode[];
  /** DIR/node */
  readonly nodeData: string;
  readonly sharedFolder: string;
}

interface LabFile {
  readonly version: 1;
  readonly nodes: number;
  readonly subnet: string;
}

export function isLab(data: DataDir): boolean {
  return existsSync(data.file("lab.json"));
}

/** undefined = this data directory has one node. */
export function readLab(data: DataDir): Lab | undefined {
  const file = readJsonFile(data.file("lab.json")) as LabFile | undefined;
  return file === undefined ? undefined : labOf(data, file.nodes, file.subnet);
}

/** `path`: of a data directory, which is not made where there is none. */
export function requireLab(path: string): Lab {
  const lab = isDataDir(path) ? readLab(openDataDir(path)) : undefined;
  if (lab !== undefined) return lab;
  throw new AppError(
    "config.invalid",
    `${path} holds no cluster of several nodes: start one with ./gpve up --nodes 3, or name its directory with --data DIR`,
  );
}

export function labNode(lab: Lab, name: string | undefined): LabNode {
  const found = lab.nodes.find((node) => node.name === name);
  if (found !== undefined) return found;
  const known = lab.nodes.map((node) => node.name).join(", ");
  throw new AppError("object.not_found", `no node ${name ?? "was named"}: this cluster has ${known}`);
}

/** `--nodes`, checked; undefined = not asked for. */
export function parseNodeCount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = Number(text);
  if (Number.isInteger(count) && count >= MIN_NODES && count <= MAX_NODES) return count;
  throw new AppError(
    "config.invalid",
    `--nodes ${text}: from ${MIN_NODES} to ${MAX_NODES} nodes can run on one machine; leave it out for one node`,
  );
}

/** The lab of this directory, or a new one. Refuses a directory that is used in another way. */
export async function openLab(
  data: DataDir,
  count: number | undefined,
  chooseSubnet: () => Promise<string>,
): Promise<Lab> {
  const known = readLab(data);
  if (known !== undefined) {
    if (count === undefined || count === known.nodes.length) return known;
    throw new AppError(
      "config.invalid",
      `${data.path} holds a cluster of ${known.nodes.length} nodes, not ${count}: leave out --nodes, or choose another --data DIR`,
    );
  }
  if (existsSync(data.file("server", "store.db"))) {
    throw new AppError(
      "config.invalid",
      `${data.path} holds a single node: choose another --data DIR for a cluster`,
    );
  }
  const file: LabFile = { version: 1, nodes: count ?? MIN_NODES, subnet: await chooseSubnet() };
  const lab = labOf(data, file.nodes, file.subnet);
  for (const folder of [data.file("nodes"), lab.nodeData, ...lab.nodes.map((node) => node.folder)])
    mkdirSync(folder, { recursive: true, mode: 0o711 });
  mkdirSync(lab.sharedFolder, { recursive: true, mode: 0o755 });
  writeFileAtomic(data.file("lab.json"), `${JSON.stringify(file)}\n`);
  return lab;
}

export function labOf(data: DataDir, count: number, subnet: string): Lab {
  const id = data.instanceId;
  const prefix = subnet.replace(/\.0\/24$/, "");
  const nodes = Array.from({ length: count }, (_, at): LabNode => {
    const name = `n${at + 1}`;
    return {
      name,
      address: `${prefix}.${11 + at}`,
      namespace: `gpve-${id}-${name}`,
      isMember: at < MAX_MEMBERS,
      nodePort: `g${id}${name}`,
      guestPort: `g${id}${name}g`,
      folder: data.file("nodes", name),
    };
  });
  return {
    id,
    data,
    subnet,
    gateway: `${prefix}.1`,
    nodeBridge: `g${id}nodes`,
    guestBridge: `g${id}lan`,
    nodes,
    nodeData: data.file("node"),
    sharedFolder: data.file("shared"),
  };
}

export function serverUrl(node: LabNode): string {
  return `https://${node.address}:${SERVER_PORT}`;
}

export function etcdUrls(lab: Lab): string[] {
  return lab.nodes.filter(({ isMember }) => isMember).map(({ address }) => `https://${address}:${ETCD_PORT}`);
}
