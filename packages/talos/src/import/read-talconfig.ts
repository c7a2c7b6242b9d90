// talhelper's talconfig.yaml.
import { isIPv4, isIPv6 } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import { parseDocument } from "yaml";
import { type Environment, fillEnvironment } from "../cluster/environment.ts";
import { extensionsOfSchematic } from "../image/known-schematics.ts";
import {
  type ImportedCluster,
  type ImportedMachine,
  hostnameOf,
  hostOf,
  isTree,
  listOf,
  numberOf,
  portOf,
  textMapOf,
  textOf,
  textsOf,
  type Tree,
  treeAt,
} from "./imported-cluster.ts";
import { strategicPatch } from "./strategic-patch.ts";

export const isTalconfig = (value: unknown): value is Tree =>
  isTree(value) && "clusterName" in value && Array.isArray(value["nodes"]);

/** What has a counterpart in cluster.yaml; other keys are named in the notes. */
const taken = new Set(
  `clusterName talosVersion kubernetesVersion endpoint domain allowSchedulingOnMasters nodes controlPlane worker
   allowSchedulingOnControlPlanes additionalApiServerCertSans additionalMachineCertSans clusterPodNets clusterSvcNets
   cniConfig patches`.split(/\s+/),
);
const takenOfNodes = new Set(
  `hostname ipAddress controlPlane installDisk installDiskSelector nameservers networkInterfaces nodeLabels nodeTaints
   patches schematic talosImageURL disableSearchDomain ignoreHostname`.split(/\s+/),
);
const takenOfRoles = new Set(["patches", "schematic"]);
const takenOfInterfaces = new Set(
  "interface deviceSelector addresses routes vip mtu dhcp dhcpOptions".split(" "),
);

/** The minor of v1 whose configurations are of several documents. */
const FIRST_OF_DOCUMENTS = 12;

/** A route that names no network is one as well. */
const DEFAULT_ROUTES: ReadonlySet<string> = new Set(["", "0.0.0.0/0", "::/0"]);

export function readTalconfig(file: unknown): ImportedCluster {
  return isTalconfig(file) ? read(file) : refuse();
}

function read(file: Tree): ImportedCluster {
  const patchFiles = new Map<string, string>();
  const patchNotes: string[] = [];
  const nodes = listOf(file["nodes"]).filter(isTree);
  const first = nodes.find((node) => node["controlPlane"] === true) ?? nodes[0] ?? {};
  const interfaces = nodes.map(mainInterface);
  const url = URL.parse(textOf(file["endpoint"]) ?? "");
  const customization = customizationOf(first, file);
  const patchesOf = (part: unknown, name: string): readonly string[] =>
    listOf(treeAt(part, "patches")).flatMap((patch, at) => {
      const text = typeof patch === "string" ? patch : "";
      if (text.startsWith("@")) return [text.slice(1)];
      const path = `patches/${name}-${at + 1}.yaml`;
      const [merged, notes] = mergedPatch(path, text, file);
      patchNotes.push(...notes);
      if (merged === "") return [];
      patchFiles.set(path, merged);
      return [path];
    });
  const hasIPv4 = nodes.some((node) => addressesOf(node).some(isIPv4));
  const networks = interfaces
    .flatMap((each) => textsOf(each["addresses"]))
    .filter((address) => /^[^/]+\/\d+$/.test(address));
  const said = {
    name: textOf(file["clusterName"]),
    talos: textOf(file["talosVersion"]),
    kubernetes: textOf(file["kubernetesVersion"]),
    vip: nodes
      .flatMap(interfacesOf)
      .map((each) => textOf(treeAt(each, "vip", "ip")))
      .find((ip) => ip !== undefined),
    endpointHost: hostOf(url),
    port: url === null ? undefined : portOf(url),
    extraSANs: [
      ...new Set([
        ...textsOf(file["additionalApiServerCertSans"]),
        ...textsOf(file["additionalMachineCertSans"]),
      ]),
    ],
    nodeCIDR: hasIPv4 ? networks.find((each) => !each.includes(":")) : networks[0],
    nodeCIDR6: hasIPv4 ? networks.find((each) => each.includes(":")) : undefined,
    gateway: interfaces
      .flatMap((each) => listOf(each["routes"]))
      .filter((route) => DEFAULT_ROUTES.has(textOf(treeAt(route, "network")) ?? ""))
      .map((route) => textOf(treeAt(route, "gateway")))
      .find((gateway) => gateway !== undefined && !(hasIPv4 && gateway.includes(":"))),
    asksForAddresses:
      interfaces.some((each) => each["dhcp"] === true) && !networks.some((each) => !each.includes(":")),
    dns: textsOf(first["nameservers"]),
    mtu: interfaces.map((each) => numberOf(each["mtu"])).find((mtu) => mtu !== undefined),
    podCIDRs: textsOf(file["clusterPodNets"]),
    serviceCIDRs: textsOf(file["clusterSvcNets"]),
    dnsDomain: textOf(file["domain"]),
    schedulable: file["allowSchedulingOnControlPlanes"] === true || file["allowSchedulingOnMasters"] === true,
    extensions: textsOf(treeAt(customization, "systemExtensions", "officialExtensions")),
    kernelArgs: textsOf(treeAt(customization, "extraKernelArgs")),
    patches: patchesOf(file, "all"),
    controlPlanePatches: patchesOf(file["controlPlane"], "control-plane"),
    workerPatches: patchesOf(file["worker"], "worker"),
    machines: nodes.map((node, at) =>
      machine(node, file, (part, name) => patchesOf(part, `nodes/${name || at + 1}`)),
    ),
  };
  const [cni, urls] = networkPlugin(file, patchFiles.values());
  return {
    ...said,
    cni,
    patchFiles,
    notes: [
      "talconfig.yaml says nothing of the platform: look at providers, and at the machines' sizes.",
      "Its secrets come over with: gpvectl talos secrets import talsecret.yaml (sops too).",
      ...(urls.length === 0
        ? []
        : [`not taken over: cniConfig.urls (${urls.join(", ")}); a patch can say it.`]),
      ...patchNotes,
      ...unknownImages(file, nodes),
      ...left(file, taken, ""),
      ...["controlPlane", "worker"].flatMap((role) => left(file[role], takenOfRoles, `${role}: `)),
      ...nodes.flatMap(leftOfNode),
    ],
  };
}

/** A patch as Talos takes it, and what is to be said of it. */
function mergedPatch(path: string, text: string, file: Tree): readonly [string, readonly string[]] {
  const operations = parseTalconfig(text);
  if (!Array.isArray(operations)) return [text, []];
  const minor = /^v?1\.(\d+)\b/.exec(textOf(file["talosVersion"]) ?? "")?.[1];
  if (minor !== undefined && Number(minor) < FIRST_OF_DOCUMENTS) {
    return [
      text,
      [
        `${path} is a JSON patch, which Talos takes no longer from v1.12 on: write it as a strategic merge patch.`,
      ],
    ];
  }
  const { text: merged, left: refused } = strategicPatch(operations as unknown[]);
  const without =
    refused.length === 0 ? "" : `, without ${refused.join(", ")}, which such patches cannot say`;
  return [
    merged,
    [
      merged === ""
        ? `not taken over: the JSON patch ${path}: ${refused.join(", ") || "it is empty"}.`
        : `${path} was a JSON patch, which Talos takes no longer from v1.12 on; it is a strategic merge patch now${without}: look through it.`,
    ],
  ];
}

/** With an environment, what it refers to is filled in as talhelper does it. */
export function parseTalconfig(text: string, env?: Environment): unknown {
  // "<<: *node" is how nodes that are alike are written.
  const document = parseDocument(text, { prettyErrors: false, logLevel: "silent", merge: true });
  if (document.errors.length > 0) return undefined;
  const missing = env === undefined ? [] : fillEnvironment(document, env);
  if (missing.length > 0) {
    const [{ path, message } = { path: [], message: "" }] = missing;
    throw new AppError("config.invalid", `${path.join(".")} ${message}`, {
      data: { finding: "environment-missing", next: "talenv.yaml is not read: export what it says." },
    });
  }
  return document.toJS({ maxAliasCount: 100 }) as unknown;
}

function refuse(): never {
  throw new AppError("config.invalid", "with its environment filled in it is no talconfig.yaml", {
    data: { finding: "import-unknown", next: "Nothing was written." },
  });
}

/** A node's own schematic is all it has; others have their role's. */
function customizationOf(node: Tree, file: Tree): unknown {
  return partsOf(node, file)
    .map((part) => treeAt(part, "schematic", "customization") ?? ofImage(part))
    .find((part) => part !== undefined);
}

const partsOf = (node: Tree, file: Tree): readonly unknown[] => [
  node,
  file[node["controlPlane"] === true ? "controlPlane" : "worker"],
];

/** What an installer is named by, where its schematic is one that can be told. */
function ofImage(part: unknown): unknown {
  const id = schematicOfImage(part);
  const officialExtensions = id === undefined ? undefined : extensionsOfSchematic(id);
  return officialExtensions === undefined ? undefined : { systemExtensions: { officialExtensions } };
}

function schematicOfImage(part: unknown): string | undefined {
  return /\/([0-9a-f]{64})(?:[:@]|$)/.exec(textOf(treeAt(part, "talosImageURL")) ?? "")?.[1];
}

/** Each image once: its extensions are lost when nobody writes them down. */
function unknownImages(file: Tree, nodes: readonly Tree[]): readonly string[] {
  const unknown = nodes.flatMap((node) =>
    customizationOf(node, file) === undefined
      ? partsOf(node, file).flatMap((part) => textOf(treeAt(part, "talosImageURL")) ?? [])
      : [],
  );
  return [...new Set(unknown)].map(
    (url) =>
      `talosImageURL ${url}: its extensions cannot be told from here; write them into image.extensions (the factory tells them under /schematics/ID).`,
  );
}

function machine(
  node: Tree,
  file: Tree,
  patchesOf: (part: unknown, name: string) => readonly string[],
): ImportedMachine {
  const hostname = hostnameOf(textOf(node["hostname"]) ?? "");
  const addresses = addressesOf(node);
  const mac = textOf(treeAt(mainInterface(node), "deviceSelector", "hardwareAddr"));
  return {
    hostname,
    isControlPlane: node["controlPlane"] === true,
    address: addresses.find(isIPv4) ?? addresses[0],
    mac: mac?.includes("*") === true ? undefined : mac,
    labels: textMapOf(node["nodeLabels"]),
    taints: textMapOf(node["nodeTaints"]),
    extensions: textsOf(treeAt(customizationOf(node, file), "systemExtensions", "officialExtensions")),
    patches: patchesOf(node, hostname),
  };
}

const interfacesOf = (node: Tree): readonly Tree[] => listOf(node["networkInterfaces"]).filter(isTree);

/** The card with the machine's own address; others are for storage and the like. */
function mainInterface(node: Tree): Tree {
  const interfaces = interfacesOf(node);
  const own = addressesOf(node);
  const isOwn = (address: string): boolean => own.includes(address.split("/")[0] ?? "");
  return (
    interfaces.find((each) => textsOf(each["addresses"]).some(isOwn)) ??
    interfaces.find((each) => each["dhcp"] === true) ??
    interfaces[0] ??
    {}
  );
}

/** Who is silent has Talos' own Flannel, unless a patch says otherwise; and the manifests of a custom one. */
function networkPlugin(
  file: Tree,
  patches: Iterable<string>,
): readonly ["flannel" | "none", readonly string[]] {
  const said = [...patches]
    .flatMap((text) => text.split(/^---$/m))
    .map((text) => textOf(treeAt(parseTalconfig(text), "cluster", "network", "cni", "name")));
  const names = [textOf(treeAt(file, "cniConfig", "name")), ...said].filter((name) => name !== undefined);
  return [
    (names.at(-1) ?? "flannel") === "flannel" ? "flannel" : "none",
    textsOf(treeAt(file, "cniConfig", "urls")),
  ];
}

function addressesOf(node: Tree): readonly string[] {
  return (textOf(node["ipAddress"]) ?? "")
    .split(",")
    .map((address) => address.trim())
    .filter((address) => isIPv4(address) || isIPv6(address));
}

function leftOfNode(node: Tree): readonly string[] {
  const full = textOf(node["hostname"]) ?? "node";
  const name = `${full}: `;
  const marks = ["nodeLabels", "nodeTaints"].filter((key) => Object.keys(textMapOf(node[key])).length > 0);
  return [
    ...(full.includes(".")
      ? [`${name}it is ${hostnameOf(full)} to Kubernetes; its domain was left out.`]
      : []),
    ...left(withoutUsual(node), takenOfNodes, name),
    ...(node["controlPlane"] === true && marks.length > 0
      ? [`${name}not taken over: ${marks.join(", ")} of a control plane; a patch can say it.`]
      : []),
    ...listOf(node["networkInterfaces"]).flatMap((each) =>
      left(each, takenOfInterfaces, `${name}networkInterfaces: `),
    ),
  ];
}

/** What talhelper writes into every file says nothing. */
function withoutUsual({ machineSpec, ...node }: Tree): Tree {
  const usual: Readonly<Record<string, readonly unknown[]>> = {
    mode: ["metal", "nocloud"],
    arch: ["amd64"],
    secureboot: [false],
    useUKI: [false],
  };
  const isUsual = Object.entries(isTree(machineSpec) ? machineSpec : {}).every(
    ([key, value]) => usual[key]?.includes(value) === true,
  );
  return isUsual ? node : { ...node, machineSpec };
}

function left(tree: unknown, known: ReadonlySet<string>, prefix: string): readonly string[] {
  const keys = Object.keys(isTree(tree) ? tree : {}).filter((key) => !known.has(key));
  return keys.length === 0 ? [] : [`${prefix}not taken over: ${keys.join(", ")}; a patch can say it.`];
}
