// Devices that a node's administrator has described for containers, as the Container Device Interface has it
// (https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md): a kind, and for each device what a container
// gets that has it. Vendors' tools write such files, `nvidia-ctk cdi generate` for one.
import { given } from "@gpve/contracts/given.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";

export interface CdiDevice {
  readonly name: string;
  /** Device nodes of the host that are its own, sorted. */
  readonly nodes: readonly string[];
}

export interface CdiSpec {
  /** `nvidia.com/gpu`; pods ask for it by this name. */
  readonly kind: string;
  /** Those that one worker can have without another having them too. */
  readonly devices: readonly CdiDevice[];
  readonly source: Fields;
}

const KIND = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const KUBERNETES = /^(?:[a-z0-9-]+\.)*(?:kubernetes|k8s)\.io\//;
const NAME = /^[A-Za-z0-9]([A-Za-z0-9_.:-]{0,126}[A-Za-z0-9])?$/;
/** Where a worker sees something of its own instead of the host's. */
const HIDDEN = [
  "/run",
  "/var/run",
  "/var/lib/kubelet",
  "/var/lib/cni",
  "/var/log/pods",
  "/var/log/containers",
];

/** A kind that pods can ask for by its name. */
export function isDeviceKind(kind: string): boolean {
  return KIND.test(kind) && !KUBERNETES.test(kind) && !kind.startsWith("requests.");
}

/** undefined: it is no such description. */
export function readCdiSpec(json: unknown): CdiSpec | undefined {
  const source = fieldsOf(json);
  const kind = source["kind"];
  if (typeof kind !== "string" || !isDeviceKind(kind)) return undefined;
  const devices = listOf(source["devices"]).flatMap((device): CdiDevice | [] => {
    const name = device["name"];
    // One that changes nothing of a container makes its whole file invalid.
    if (typeof name !== "string" || !NAME.test(name) || changesNothing(device)) return [];
    return { name, nodes: nodesOf(fieldsOf(device["containerEdits"])) };
  });
  return { kind, devices: apart(devices), source };
}

/** The same with these devices alone, as a worker's containerd reads it. */
export function narrowedCdiSpec({ source }: CdiSpec, names: readonly string[]): Fields {
  const devices = listOf(source["devices"])
    .filter(({ name }) => typeof name === "string" && names.includes(name))
    .map(seenByWorkers);
  return { ...seenByWorkers(source), devices };
}

/**
 * Tools name one device in several ways, and all of them together as another: by its number, by its serial number, `all`. What has
 * the same nodes is the same device, and what has those of another and more is several.
 */
function apart(devices: readonly CdiDevice[]): readonly CdiDevice[] {
  const others = devices.length > 1 ? devices.filter(({ name }) => name !== "all") : devices;
  const seen = new Set<string>();
  return others.filter((device) => {
    const key = device.nodes.length === 0 ? `name ${device.name}` : device.nodes.join("\n");
    if (seen.has(key) || others.some((each) => isPartOf(each, device))) return false;
    seen.add(key);
    return true;
  });
}

function isPartOf(part: CdiDevice, whole: CdiDevice): boolean {
  return (
    part.nodes.length > 0 &&
    part.nodes.length < whole.nodes.length &&
    part.nodes.every((node) => whole.nodes.includes(node))
  );
}

function changesNothing(device: Fields): boolean {
  const edits = fieldsOf(seenByWorkers(device)["containerEdits"]);
  return Object.values(edits).every((edit) => !Array.isArray(edit) || edit.length === 0);
}

function nodesOf(edits: Fields): readonly string[] {
  const paths = listOf(edits["deviceNodes"]).flatMap(({ hostPath, path }) => {
    const found = hostPath ?? path;
    return typeof found === "string" && found !== "" ? [found] : [];
  });
  return [...new Set(paths)].toSorted();
}

/** Without mounts of what a worker does not see, such as sockets of the host's daemons: a container with one would not start. */
function seenByWorkers(part: Fields): Fields {
  if (part["containerEdits"] === undefined) return part;
  const edits = fieldsOf(part["containerEdits"]);
  const mounts = edits["mounts"] === undefined ? undefined : listOf(edits["mounts"]).filter(isSeen);
  return { ...part, containerEdits: { ...edits, ...given({ mounts }) } };
}

function isSeen({ hostPath }: Fields): boolean {
  return !HIDDEN.some((folder) => hostPath === folder || String(hostPath).startsWith(`${folder}/`));
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? (value as readonly unknown[]).map(fieldsOf) : [];
}
