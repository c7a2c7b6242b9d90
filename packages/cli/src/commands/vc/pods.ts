// Which worker and node a pod runs on, and what runs on a node: asked of nodes, so that a cluster that sleeps is not woken.
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { tenantOption, vcArgument, vcPath } from "./find-vc.ts";

const WHERE = [
  { header: "POD", field: "pod" },
  { header: "NAMESPACE", field: "namespace" },
  { header: "CLUSTER", field: "vcluster" },
  { header: "TENANT", field: "tenant" },
  { header: "WORKER", field: "vnode" },
  { header: "NODE", field: "node" },
] as const;
/** Of the node. */
const USAGE = [
  { header: "CPU", field: "nodeUsage.cpu", format: "percent" },
  { header: "MEMORY", field: "nodeUsage.memoryUsedBytes", format: "bytes" },
  { header: "OF", field: "nodeUsage.memoryTotalBytes", format: "bytes" },
  { header: "LOAD", field: "nodeUsage.load", format: "list" },
] as const;

export const vcPod: CommandSpec = {
  name: "vc pod",
  summary: "show which worker and node a pod runs on, and how busy that node is",
  details: "The node is asked, not the cluster: one that sleeps is not woken.",
  arguments: [vcArgument, { name: "<pod>", about: "the pod" }],
  options: [tenantOption, { flags: "--namespace <namespace>", about: "of the pod (default)" }],
  examples: ["vc pod demo web-0", "vc pod demo coredns-0 --namespace kube-system"],
  doing: (input) => `find pod ${input.arg("pod")} of virtual cluster ${input.arg("name")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const namespace = input.text("namespace") ?? "default";
    const pod = encodeURIComponent(input.arg("pod"));
    const path = vcPath(input, `/pods/${pod}/mapping?namespace=${encodeURIComponent(namespace)}`);
    const found = await v1.raw("GET", path);
    if (cli.out.forPeople) cli.out.rows([found], [...WHERE, ...USAGE], "");
    else cli.out.data(found);
  },
};

export const nodePods: CommandSpec = {
  name: "node pods",
  summary: "show the pods of virtual clusters that run on a node",
  arguments: [{ name: "<node>", about: "the node's name" }],
  examples: ["node pods n1"],
  doing: (input) => `list the pods on node ${input.arg("node")}`,
  run: async (cli, input) => {
    const { v1 } = await cli.client();
    const answer = await v1.raw("GET", `nodes/${encodeURIComponent(input.arg("node"))}/pods`);
    const pods = isObject(answer) && Array.isArray(answer["pods"]) ? (answer["pods"] as unknown[]) : [];
    cli.out.rows(pods, WHERE, "No pods of virtual clusters.");
  },
};
