// talhelper's talconfig.yaml.
import { isIP, isIPv4 } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
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
import { CNI_PATCH, type NamedFiles, TalconfigPatches } from "./talconfig-patches.ts";
import { settingsOf, withRole } from "./talconfig-settings.ts";
import { parseTalconfig } from "./talconfig-text.ts";

export const isTalconfig = (value: unknown): value is Tree =>
  isTree(value) && "clusterName" in value && Array.isArray(value["nodes"]);

/** What has a counterpart in cluster.yaml; other keys are named in the notes. */
const taken = new Set(
  `clusterName talosVersion kubernetesVersion endpoint domain allowSchedulingOnMasters nodes controlPlane worker
   allowSchedulingOnControlPlanes additionalApiServerCertSans additionalMachineCertSans clusterPodNets clusterSvcNets
   cniConfig imageFactory patches`.split(/\s+/),
);
const takenOfNodes = new Set(
  `hostname ipAddress controlPlane installDisk installDiskSelector nameservers networkInterfaces nodeLabels nodeTaints
   patches schematic talosImageURL disableSearchDomain ignoreHostname`.split(/\s+/),
);
const takenOfRoles = new Set(
  "nameservers networkInterfaces nodeLabels nodeTaints patches schematic talosImageURL disableSearchDomain".split(
    " ",
  ),
);
const takenOfInterfaces = new Set(
  "interface deviceSelector addresses routes vip mtu dhcp dhcpOptions".split(" "),
);

/** A route that names no network is one as well. */
const DEFAULT_ROUTES: ReadonlySet<string> = new Set(["", "0.0.0.0/0", "::/0"]);

export function readTalconfig(file: unknown, files?: NamedFiles): ImportedCluster {
  return isTalconfig(file) ? read(file, files) : refuse();
}

function read(file: Tree, files: NamedFiles | undefined): ImportedCluster {
  const written = listOf(file["nodes"]).filter(isTree);
  const roleOf = (node: Tree): string => (node["controlPlane"] === true ? "controlPlane" : "worker");
  const nodes = written.map((node) => withRole(node, file[roleOf(node)]));
  const first = nodes.find((node) => node["controlPlane"] === true) ?? nodes[0] ?? {};
  const interfaces = nodes.map(mainInterface);
  const url = URL.parse(textOf(file["endpoint"]) ?? "");
  const customization = customizationOf(first, file);
  const patches = new TalconfigPatches(file, files);
  // What some node says in another way is each node's own.
  const ofRole = (role: string): readonly string[] =>
    settingsOf(role === "controlPlane").filter(
      (key) => !written.some((node) => roleOf(node) === role && key in node),
    );
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
    factory: factoryOf(file["imageFactory"]),
    patches: [...patches.ofPlugin("all"), ...patches.of(file, "all")],
    controlPlanePatches: [
      ...patches.ofPlugin("controlPlane"),
      ...patches.ofBoth(file["controlPlane"], ofRole("controlPlane"), "control-plane"),
    ],
    workerPatches: patches.ofBoth(file["worker"], ofRole("worker"), "worker"),
    machines: nodes.map((node, at) =>
      machine(node, file, (name) => {
        const role = roleOf(node);
        const own = settingsOf(role === "controlPlane").filter((key) => !ofRole(role).includes(key));
        return patches.ofBoth({ ...node, patches: written[at]?.["patches"] }, own, `nodes/${name || at + 1}`);
      }),
    ),
  };
  const [cni, urls] = networkPlugin(file, patches);
  return {
    ...said,
    cni,
    patchFiles: patches.files,
    notes: [
      "talconfig.yaml says nothing of the platform: look at providers, and at the machines' sizes.",
      "Its secrets come over with: gpvectl talos secrets import talsecret.yaml (sops too).",
      ...(urls.length === 0
        ? []
        : [`not taken over: cniConfig.urls (${urls.join(", ")}); a patch can say it.`]),
      ...patches.notes,
      ...unknownImages(file, nodes),
      ...left(file, taken, ""),
      ...left(
        file["imageFactory"],
        new Set(said.factory === undefined ? [] : ["registryURL", "protocol"]),
        "imageFactory: ",
      ),
      ...["controlPlane", "worker"].flatMap((role) => [
        ...left(file[role], new Set([...takenOfRoles, ...settingsOf(false)]), `${role}: `),
        ...leftOfInterfaces(file[role], `${role}: `),
      ]),
      ...written.flatMap(leftOfNode),
    ],
  };
}

function factoryOf(said: unknown): string | undefined {
  const registry = textOf(treeAt(said, "registryURL"));
  return registry === undefined
    ? undefined
    : `${textOf(treeAt(said, "protocol")) ?? "https"}://${registry.replace(/^https?:\/\//, "")}`;
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

function machine(node: Tree, file: Tree, patchesOf: (name: string) => readonly string[]): ImportedMachine {
  const hostname = hostnameOf(textOf(node["hostname"]) ?? "");
  const addresses = addressesOf(node);
  const mac = textOf(treeAt(mainInterface(node), "deviceSelector", "hardwareAddr"));
  return {
    hostname,
    isControlPlane: node["controlPlane"] === true,
    address: addresses.find(isIPv4) ?? addresses[0],
    mac: mac?.includes("*") === true ? undefined : mac,
    // What the platform's controllers find it by says which one it is.
    vmid: numberOf(/\bproxmox:\/\/[\w.-]+\/(\d+)\b/.exec(textsOf(node["patches"]).join("\n"))?.[1]),
    labels: textMapOf(node["nodeLabels"]),
    taints: textMapOf(node["nodeTaints"]),
    extensions: textsOf(treeAt(customizationOf(node, file), "systemExtensions", "officialExtensions")),
    patches: patchesOf(hostname),
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

/** Who is silent has Talos' own Flannel, unless a patch says otherwise; and the manifests that no patch has. */
function networkPlugin(
  file: Tree,
  patches: TalconfigPatches,
): readonly ["flannel" | "none", readonly string[]] {
  const said = patches.texts
    .flatMap((text) => text.split(/^---$/m))
    .map((text) => textOf(treeAt(parseTalconfig(text), "cluster", "network", "cni", "name")));
  const names = [textOf(treeAt(file, "cniConfig", "name")), ...said].filter((name) => name !== undefined);
  return [
    (names.at(-1) ?? "flannel") === "flannel" ? "flannel" : "none",
    patches.files.has(CNI_PATCH) ? [] : textsOf(treeAt(file, "cniConfig", "urls")),
  ];
}

const saidAddresses = (node: Tree): readonly string[] =>
  (textOf(node["ipAddress"]) ?? "")
    .split(",")
    .map((address) => address.trim())
    .filter((address) => address !== "");

const addressesOf = (node: Tree): readonly string[] => saidAddresses(node).filter((each) => isIP(each) !== 0);

function leftOfNode(node: Tree): readonly string[] {
  const full = textOf(node["hostname"]) ?? "node";
  const name = `${full}: `;
  const [unknown] = saidAddresses(node).filter((each) => isIP(each) === 0);
  return [
    ...(full.includes(".")
      ? [`${name}it is ${hostnameOf(full)} to Kubernetes; its domain was left out.`]
      : []),
    ...(unknown === undefined
      ? []
      : [`${name}its address ${unknown} is a name: write the address behind it into nodes, as ip.`]),
    ...left(withoutUsual(node), new Set([...takenOfNodes, ...settingsOf(false)]), name),
    ...leftOfInterfaces(node, name),
  ];
}

const leftOfInterfaces = (part: unknown, name: string): readonly string[] =>
  listOf(treeAt(part, "networkInterfaces")).flatMap((each) =>
    left(each, takenOfInterfaces, `${name}networkInterfaces: `),
  );

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
