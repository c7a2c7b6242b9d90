import { Type } from "typebox";
import { condition } from "../condition.ts";
import type { KindDeclaration } from "../kind.ts";
import { allOf, privilege, toChange, toRead } from "../permission.ts";
import { vcSchedulingFields } from "../scheduling.ts";
import { VC_PHASES } from "../vc-phase.ts";
import { closed, devices, labels, pools, resources, sizes } from "./worker-fields.ts";

const count = Type.Optional(Type.Integer({ minimum: 0, maximum: 1000, default: 0 }));
const oidc = Type.Object(
  {
    issuerUrl: Type.String({ description: "https://login.example.com, as it stands in tokens." }),
    clientId: Type.String({ description: "For whom tokens must have been made out." }),
    usernameClaim: Type.Optional(
      Type.String({
        description: "The claim that is the user, whom the cluster knows as oidc:NAME.",
        default: "sub",
      }),
    ),
    groupsClaim: Type.Optional(
      Type.String({ description: "The claim with groups, each known as oidc:NAME; default none." }),
    ),
    ca: Type.Optional(
      Type.String({ description: "Who signed the issuer's certificate, PEM; default whom its node trusts." }),
    ),
  },
  {
    ...closed,
    description:
      "An OpenID issuer whose users may log in. What they may do is for the cluster's own roles to say.",
  },
);
const tenant = "/pool/{metadata.namespace}";
const read = privilege(tenant, "VC.Audit");
const change = allOf(read, privilege(tenant, "VC.Config"));

export const virtualClusterKind: KindDeclaration = {
  kind: "VirtualCluster",
  plural: "vclusters",
  aliases: ["virtualcluster", "virtualclusters", "vcluster", "vc", "vcs"],
  scope: "tenant",
  namespaced: true,
  namesInTenant: true,
  defaultNamespace: "default",
  flatBody: true,
  waitedCreate:
    "Answer when it runs, with `kubeconfig`: a new one for whoever asks, where he may have one. 409 when it fails.",
  applyOrder: 60,
  description:
    "A Kubernetes cluster of its own: API server, controllers and scheduler as processes on a node, and its workers.",
  spec: Type.Object(
    {
      kubernetesVersion: Type.Optional(
        Type.String({ description: "1.36 or 1.36.4; default the newest that its node has." }),
      ),
      controlPlane: Type.Optional(
        Type.Object(
          {
            tier: Type.Optional(
              Type.String({
                description: "Starter, Standard, Performance or Enterprise.",
                default: "Starter",
              }),
            ),
            backingStore: Type.Optional(
              Type.String({ description: "sqlite, etcd or external; default as the tier has it." }),
            ),
            externalEtcdEndpoint: Type.Optional(
              Type.String({
                description:
                  "Of backingStore external: https://ADDRESS:2379, several with commas. It is let out to them and to nothing else.",
              }),
            ),
            externalEtcdCertificates: Type.Optional(
              Type.Object(
                {
                  ca: Type.String({ description: "Whom the etcd's certificate is signed by; PEM." }),
                  cert: Type.String({ description: "Of the client; PEM." }),
                  key: Type.String({ description: "Of the client; PEM." }),
                },
                {
                  ...closed,
                  writeOnly: true,
                  description: "Said once, at the creation; its node keeps them.",
                },
              ),
            ),
            oidc: Type.Optional(oidc),
            replicas: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: 7,
                description:
                  "1, or 3 with backingStore etcd: each on a node of its own, and the API answers when one is lost. Default as the tier has it.",
              }),
            ),
            resources: sizes(
              "The most that each part of it may use: 2 or 500m; default as the tier has it.",
              "The most that all parts of it may have together: 2Gi, or bytes; default as the tier has it.",
            ),
          },
          closed,
        ),
      ),
      workerNodes: Type.Optional(
        Type.Object(
          {
            mode: Type.Optional(
              Type.String({ description: "private: kubelets of its own.", default: "private" }),
            ),
            count,
            resources,
            devices: Type.Optional(devices),
            pools: Type.Optional(pools),
            nodeSelector: Type.Optional({ ...labels, description: "Labels of the node that gets it." }),
            privileged: Type.Optional(
              Type.Boolean({
                description: "Pods may be root of their worker, which on L1 is root of the node.",
                default: false,
              }),
            ),
          },
          closed,
        ),
      ),
      isolationLevel: Type.Optional(
        Type.String({
          description: "L1 (runc), L2 (Kata) or L3 (each worker a machine of its own).",
          default: "L1",
        }),
      ),
      networking: Type.Optional(
        Type.Object(
          {
            podCIDR: Type.Optional(Type.String({ default: "10.244.0.0/16" })),
            serviceCIDR: Type.Optional(Type.String({ default: "10.96.0.0/16" })),
            dnsDomain: Type.Optional(Type.String({ default: "cluster.local" })),
            cni: Type.Optional(
              Type.String({
                description: "bridge: a network of gpve's own, with VXLAN between nodes.",
                default: "bridge",
              }),
            ),
            exposure: Type.Optional(
              Type.String({
                description:
                  "Where new kubeconfigs lead: node, to the cluster's own port there; server, to gpve's servers, by its name; auto: to the servers where there are several nodes.",
                default: "auto",
              }),
            ),
            egress: Type.Optional(
              Type.String({
                description: "nat: pods go out by the ways of their node, in its name; none: they do not.",
                default: "none",
              }),
            ),
            ingress: Type.Optional(
              Type.String({
                description:
                  "traefik: Ingresses are served, at an address of a load balancer; none: by whom you install.",
                default: "none",
              }),
            ),
          },
          closed,
        ),
      ),
      quota: Type.Optional(
        Type.Object(
          {
            cpu: Type.Optional(
              Type.Union([Type.String(), Type.Number()], {
                description: "What its workers may have together, 8 or 2500m. Default no bound.",
              }),
            ),
            memory: Type.Optional(
              Type.Union([Type.String(), Type.Integer()], {
                description: "What its workers may have together, 16Gi or bytes. Default no bound.",
              }),
            ),
            storage: Type.Optional(
              Type.Union([Type.String(), Type.Integer()], {
                description:
                  "What its persistent volumes may ask for together, 20Gi or bytes; counts in the tenant's quota. Default no bound, and 0 where the tenant's storage is bounded.",
              }),
            ),
          },
          closed,
        ),
      ),
      volumes: Type.Optional(
        Type.Object(
          {
            storage: Type.Optional(
              Type.String({
                description:
                  "The storage (content `volumes`) that its persistent volumes are folders of; default the folders of its workers.",
              }),
            ),
          },
          closed,
        ),
      ),
      sleep: Type.Optional(
        Type.Object(
          {
            mode: Type.Optional(
              Type.String({ description: "cold, warm or none; default as the tier has it." }),
            ),
            afterIdleSeconds: Type.Optional(
              Type.Integer({
                minimum: 5,
                maximum: 2_592_000,
                description: "How long nobody has sent or got a byte; default 900.",
              }),
            ),
            sleepAt: Type.Optional(
              Type.String({
                description:
                  "A calendar event, such as mon..fri 20:00: it goes to sleep then, whoever uses it.",
              }),
            ),
            wakeAt: Type.Optional(
              Type.String({ description: "A calendar event, such as mon..fri 7:00: it is woken then." }),
            ),
            fromStart: Type.Optional(
              Type.Boolean({
                description:
                  "It is made asleep: its control plane starts for the first time when somebody connects. Without workers.",
                default: false,
              }),
            ),
          },
          closed,
        ),
      ),
      scheduling: Type.Optional(
        Type.Object(
          {
            ...vcSchedulingFields,
            spread: Type.Optional(
              Type.Boolean({
                description:
                  "Workers are dealt out to the nodes in turn, and their pods are one network over VXLAN; else all are where its control plane is.",
                default: false,
              }),
            ),
          },
          closed,
        ),
      ),
      node: Type.Optional(
        Type.String({
          description: "The node that shall have its control plane; default where the scheduler says.",
        }),
      ),
    },
    closed,
  ),
  status: Type.Object({
    phase: Type.Enum([...VC_PHASES, "Unknown"], {
      description: "Where it is in its life; Unknown: its node tells nothing.",
    }),
    node: Type.String(),
    endpoint: Type.Optional(Type.String({ description: "Where its API is." })),
    kubernetesVersion: Type.Optional(Type.String({ description: "What runs." })),
    power: Type.Enum(["hot", "warm", "cold"]),
    kubeconfig: Type.String({ description: "Where a kubeconfig can be had; never the file itself." }),
    memoryBytes: Type.Optional(Type.Integer({ description: "Of its control plane." })),
    lastProbeTime: Type.Optional(
      Type.String({ format: "date-time", description: "When its node looked at it last." }),
    ),
    vnodes: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String(),
          node: Type.String({ description: "The node that it is on." }),
          running: Type.Boolean({ description: "Its programs and its network are whole." }),
          cpu: Type.Number(),
          memoryBytes: Type.Integer(),
          usedBytes: Type.Optional(Type.Integer({ description: "What it takes now, with its pods." })),
          pods: Type.Integer({ description: "That run on it." }),
          volumes: Type.Optional(Type.Integer({ description: "Persistent volumes that it has." })),
          volumeBytes: Type.Optional(Type.Integer({ description: "What their claims asked for, together." })),
          accelerator: Type.Optional(
            Type.Enum(["kvm", "tcg"], { description: "Of L3: what runs its machine; tcg is slow." }),
          ),
        }),
        { description: "Its workers." },
      ),
    ),
    replicas: Type.Optional(
      Type.Array(
        Type.Object({
          node: Type.String({ description: "The node that it is on." }),
          phase: Type.Enum([...VC_PHASES, "Unknown"]),
          ready: Type.Boolean({ description: "All of its parts run." }),
        }),
        { description: "Of its control plane, where there are several." },
      ),
    ),
    standby: Type.Optional(
      Type.Object(
        {
          node: Type.String(),
          inSync: Type.Boolean({ description: "It could go on from there now." }),
          revision: Type.Optional(Type.Integer({ description: "The newest of its store." })),
          confirmedRevision: Type.Optional(Type.Integer({ description: "The newest that is there too." })),
        },
        { description: "The node that follows its store." },
      ),
    ),
    recovered: Type.Optional(
      Type.Object(
        {
          from: Type.String({ description: "The node that was lost." }),
          at: Type.String({ format: "date-time" }),
          mayHaveLostSeconds: Type.Number(),
        },
        { description: "When it went on from its standby last." },
      ),
    ),
    conditions: Type.Array(condition),
  }),
  namePattern: "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$",
  nameWords: "up to 32 small letters, digits and dashes, a letter first and no dash last",
  permissions: {
    ...toRead(read),
    ...toChange(change),
    create: allOf(read, privilege(tenant, "VC.Allocate")),
    delete: allOf(read, privilege(tenant, "VC.Allocate")),
  },
  forcedDelete: "1 = also when it has persistent volumes; they go with it, with all that is in them.",
  selectableFields: ["metadata.namespace", "status.phase", "status.node"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "TENANT", field: "metadata.namespace" },
    { header: "PHASE", field: "status.phase" },
    { header: "POWER", field: "status.power" },
    { header: "VERSION", field: "status.kubernetesVersion" },
    { header: "NODE", field: "status.node" },
    { header: "ENDPOINT", field: "status.endpoint" },
    { header: "MEMORY", field: "status.memoryBytes", format: "bytes", wide: true },
  ],
  describe: [
    {
      title: "Virtual cluster",
      fields: ["status.phase", "status.power", "status.kubernetesVersion", "status.endpoint", "status.node"],
    },
    { title: "Conditions", fields: ["status.conditions"] },
    { title: "Control plane", fields: ["spec.controlPlane", "status.memoryBytes", "status.kubeconfig"] },
    { title: "Workers", fields: ["spec.workerNodes", "spec.isolationLevel", "status.vnodes"] },
    { title: "Network", fields: ["spec.networking"] },
    { title: "Volumes", fields: ["spec.volumes", "spec.quota"] },
    { title: "Sleep", fields: ["spec.sleep"] },
    { title: "Nodes", fields: ["status.replicas", "status.standby", "status.recovered", "spec.scheduling"] },
  ],
  liveStatus: true,
};
