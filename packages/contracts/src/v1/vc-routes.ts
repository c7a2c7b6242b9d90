// What /api/v1 does with virtual clusters beside their objects. Part of `fixedRoutes`; each is below its tenant too.
import { Type } from "typebox";
import {
  KubeconfigSchema,
  KubeconfigsSchema,
  ScaleRequestSchema,
  SleepRequestSchema,
  TaskRefSchema,
} from "./bodies.ts";
import { nodeKind } from "./kinds/node.ts";
import { virtualClusterKind } from "./kinds/virtual-cluster.ts";
import { privilege } from "./permission.ts";
import { ClusterEventsSchema, ClusterLinesSchema, MappedPodSchema, MappedPodsSchema } from "./vc-answers.ts";

const tenant = "/pool/{metadata.namespace}";
const on = virtualClusterKind;
const work = { status: 202, schema: TaskRefSchema } as const;

export const vcRoutes = [
  {
    operationId: "vclusterKubeconfig",
    method: "GET",
    path: "/vclusters/{name}/kubeconfig",
    summary: "A new kubeconfig of a cluster's administrator, for whoever asks; never of system:masters",
    permission: privilege(tenant, "VC.Kubeconfig"),
    on,
    audit: "read",
    query: [
      {
        name: "hours",
        description: "How long it is good; default 24.",
        schema: Type.Integer({ minimum: 1, maximum: 8784 }),
      },
    ],
    response: { status: 200, schema: KubeconfigSchema },
  },
  {
    operationId: "listVclusterKubeconfigs",
    method: "GET",
    path: "/vclusters/{name}/kubeconfigs",
    summary: "The kubeconfigs of a cluster that are good, whose and until when; not the files",
    permission: privilege(tenant, "VC.Kubeconfig"),
    on,
    audit: "none",
    response: { status: 200, schema: KubeconfigsSchema },
  },
  {
    operationId: "revokeVclusterKubeconfig",
    method: "DELETE",
    path: "/vclusters/{name}/kubeconfigs/{id}",
    summary: "Take the rights of one kubeconfig away, by the id it was given with",
    permission: privilege(tenant, "VC.Kubeconfig"),
    on,
    audit: "write",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "explainVclusterPlacement",
    method: "GET",
    path: "/vclusters/{name}/placement",
    summary:
      "Where a virtual cluster is, what was decided for each part of it, where it would go now, and what is said of each node. Nodes are named to who has Sys.Audit on /nodes",
    permission: privilege(tenant, "VC.Audit"),
    on,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "startVcluster",
    method: "POST",
    path: "/vclusters/{name}/start",
    summary: "Start a stopped cluster, as an operation",
    permission: privilege(tenant, "VC.Power"),
    on,
    audit: "write",
    response: work,
  },
  {
    operationId: "stopVcluster",
    method: "POST",
    path: "/vclusters/{name}/stop",
    summary: "Stop a cluster; nobody who connects wakes it, as an operation",
    permission: privilege(tenant, "VC.Power"),
    on,
    audit: "write",
    response: work,
  },
  {
    operationId: "sleepVcluster",
    method: "POST",
    path: "/vclusters/{name}/sleep",
    summary: "Put a cluster to sleep until somebody connects, as an operation",
    permission: privilege(tenant, "VC.Power"),
    on,
    audit: "write",
    query: [
      {
        name: "mode",
        description: "cold: its processes end; warm: they stand still in memory. Default cold.",
        schema: Type.Enum(["cold", "warm"]),
      },
    ],
    body: SleepRequestSchema,
    response: work,
  },
  {
    operationId: "wakeVcluster",
    method: "POST",
    path: "/vclusters/{name}/wake",
    summary: "Wake a cluster that sleeps, as an operation; whoever connects does so too",
    permission: privilege(tenant, "VC.Power"),
    on,
    audit: "write",
    query: [
      {
        name: "forSeconds",
        description:
          "So long from now on it does not sleep by itself, nor by its calendar; who puts it to sleep ends that. Default: it sleeps as its policy says.",
        schema: Type.Integer({ minimum: 1, maximum: 604_800 }),
      },
    ],
    response: work,
  },
  {
    operationId: "retryVcluster",
    method: "POST",
    path: "/vclusters/{name}/retry",
    summary: "Do again what left a cluster Failed, as an operation",
    permission: privilege(tenant, "VC.Power"),
    on,
    audit: "write",
    response: work,
  },
  {
    operationId: "vclusterPodMapping",
    method: "GET",
    path: "/vclusters/{name}/pods/{pod}/mapping",
    summary: "Where a pod runs: its worker, its node and how busy that is; also while the cluster sleeps",
    permission: privilege(tenant, "VC.Audit"),
    on,
    audit: "none",
    query: [
      { name: "namespace", description: "Of the pod; default `default`.", schema: Type.String() },
      { name: "tenant", description: "Of the cluster, where it is not clear.", schema: Type.String() },
    ],
    response: { status: 200, schema: MappedPodSchema },
  },
  {
    operationId: "nodeVclusterPods",
    method: "GET",
    path: "/nodes/{name}/pods",
    summary: "The pods of virtual clusters that run on a node, with their workers",
    permission: privilege("/nodes/{name}", "Sys.Audit"),
    on: nodeKind,
    audit: "none",
    response: { status: 200, schema: MappedPodsSchema },
  },
  {
    operationId: "scaleVcluster",
    method: "POST",
    path: "/vclusters/{name}/scale",
    summary: "Give a cluster as many workers as this, as an operation; those that go are drained first",
    permission: privilege(tenant, "VC.Config"),
    on,
    audit: "write",
    body: ScaleRequestSchema,
    response: work,
  },
  {
    operationId: "patchVclusterScale",
    method: "PATCH",
    path: "/vclusters/{name}/scale",
    summary: "As POST",
    permission: privilege(tenant, "VC.Config"),
    on,
    audit: "write",
    body: ScaleRequestSchema,
    response: work,
  },
  {
    operationId: "vclusterEvents",
    method: "GET",
    path: "/vclusters/{name}/events",
    summary: "What happened to a cluster lately, oldest first: its phases, and work on it that failed",
    permission: privilege(tenant, "VC.Audit"),
    on,
    audit: "none",
    response: { status: 200, schema: ClusterEventsSchema },
  },
  {
    operationId: "vclusterLogs",
    method: "GET",
    path: "/vclusters/{name}/logs",
    summary: "The last lines that the parts of its control plane printed, or of its API server's audit log",
    permission: privilege(tenant, "VC.Audit"),
    on,
    audit: "none",
    query: [
      {
        name: "audit",
        description: "true: who asked its API server for what, as lines of JSON (audit.k8s.io/v1).",
        schema: Type.Enum(["true", "false"]),
      },
    ],
    response: { status: 200, schema: ClusterLinesSchema },
  },
] as const;
