// talhelper's talconfig.yaml.
import { parse } from "yaml";
import {
  type ImportedCluster,
  type ImportedMachine,
  isTree,
  listOf,
  numberOf,
  portOf,
  textOf,
  textsOf,
  type Tree,
  treeAt,
} from "./imported-cluster.ts";

export const isTalconfig = (value: unknown): value is Tree =>
  isTree(value) && "clusterName" in value && Array.isArray(value["nodes"]);

/** What has a counterpart in cluster.yaml; other keys are named in the notes. */
const taken = new Set(
  `clusterName talosVersion kubernetesVersion endpoint domain allowSchedulingOnMasters nodes controlPlane worker
   allowSchedulingOnControlPlanes additionalApiServerCertSans additionalMachineCertSans clusterPodNets clusterSvcNets
   cniConfig patches`.split(/\s+/),
);
const takenOfNodes = new Set(
  `hostname ipAddress controlPlane installDisk installDiskSelector nameservers networkInterfaces nodeLabels patches
   schematic disableSearchDomain ignoreHostname`.split(/\s+/),
);

export function readTalconfig(file: Tree): ImportedCluster {
  const patchFiles = new Map<string, string>();
  const nodes = listOf(file["nodes"]).filter(isTree);
  const first = nodes.find((node) => node["controlPlane"] === true) ?? nodes[0] ?? {};
  const interfaces = nodes.flatMap((node) => listOf(node["networkInterfaces"]).filter(isTree));
  const url = URL.parse(textOf(file["endpoint"]) ?? "");
  const customization = [first, file["controlPlane"]]
    .map((part) => treeAt(part, "schematic", "customization"))
    .find((part) => part !== undefined);
  const patchesOf = (part: unknown, name: string): readonly string[] =>
    listOf(treeAt(part, "patches")).flatMap((patch, at) => {
      const text = typeof patch === "string" ? patch : "";
      if (text.startsWith("@")) return [text.slice(1)];
      const path = `patches/${name}-${at + 1}.yaml`;
      patchFiles.set(path, text);
      return [path];
    });
  const cni = textOf(treeAt(file, "cniConfig", "name"));
  const addresses = interfaces.flatMap((each) => textsOf(each["addresses"]));
  return {
    name: textOf(file["clusterName"]),
    talos: textOf(file["talosVersion"]),
    kubernetes: textOf(file["kubernetesVersion"]),
    vip: interfaces.map((each) => textOf(treeAt(each, "vip", "ip"))).find((ip) => ip !== undefined),
    endpointHost: url?.hostname.replace(/^\[|\]$/g, ""),
    port: url === null ? undefined : portOf(url),
    extraSANs: [
      ...new Set([
        ...textsOf(file["additionalApiServerCertSans"]),
        ...textsOf(file["additionalMachineCertSans"]),
      ]),
    ],
    nodeCIDR: addresses.find((address) => address.includes("/")),
    gateway: interfaces
      .flatMap((each) => listOf(each["routes"]))
      .map((route) => textOf(treeAt(route, "gateway")))
      .find((gateway) => gateway !== undefined),
    dns: textsOf(first["nameservers"]),
    mtu: interfaces.map((each) => numberOf(each["mtu"])).find((mtu) => mtu !== undefined),
    podCIDRs: textsOf(file["clusterPodNets"]),
    serviceCIDRs: textsOf(file["clusterSvcNets"]),
    dnsDomain: textOf(file["domain"]),
    cni: cni === "none" || cni === "flannel" ? cni : undefined,
    schedulable: file["allowSchedulingOnControlPlanes"] === true || file["allowSchedulingOnMasters"] === true,
    extensions: textsOf(treeAt(customization, "systemExtensions", "officialExtensions")),
    kernelArgs: textsOf(treeAt(customization, "extraKernelArgs")),
    patches: patchesOf(file, "all"),
    controlPlanePatches: patchesOf(file["controlPlane"], "control-plane"),
    workerPatches: patchesOf(file["worker"], "worker"),
    machines: nodes.map((node) => machine(node, patchesOf)),
    patchFiles,
    notes: [
      "talconfig.yaml says nothing of the platform: look at providers, and at the machines' sizes.",
      "Its secrets come over with: gpvectl talos secrets import talsecret.yaml (sops too).",
      ...left(file, taken, ""),
      ...nodes.flatMap((node) => left(node, takenOfNodes, `${textOf(node["hostname"]) ?? "node"}: `)),
    ],
  };
}

export function parseTalconfig(text: string): unknown {
  return parse(text, { prettyErrors: false, logLevel: "error" }) as unknown;
}

function machine(node: Tree, patchesOf: (part: unknown, name: string) => readonly string[]): ImportedMachine {
  const hostname = textOf(node["hostname"]) ?? "";
  const labels = Object.entries(isTree(node["nodeLabels"]) ? node["nodeLabels"] : {});
  return {
    hostname,
    isControlPlane: node["controlPlane"] === true,
    address: textOf(node["ipAddress"])?.split(",")[0]?.trim(),
    mac: listOf(node["networkInterfaces"])
      .map((each) => textOf(treeAt(each, "deviceSelector", "hardwareAddr")))
      .find((mac) => mac !== undefined && !mac.includes("*")),
    labels: Object.fromEntries(labels.map(([key, value]) => [key, String(value)])),
    patches: patchesOf(node, hostname),
  };
}

function left(tree: Tree, known: ReadonlySet<string>, prefix: string): readonly string[] {
  const keys = Object.keys(tree).filter((key) => !known.has(key));
  return keys.length === 0 ? [] : [`${prefix}not taken over: ${keys.join(", ")}; a patch can say it.`];
}
