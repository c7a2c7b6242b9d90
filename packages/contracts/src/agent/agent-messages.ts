// What servers and agents say to each other beside PVE's methods: the shapes of requests and of answers.
import { Type, type Static, type TProperties } from "typebox";
import { VmBackupRequestSchema } from "../v1/bodies.ts";
import { request, requestId, tenant } from "./message-parts.ts";
import { OverlaySchema } from "./vcluster-move-messages.ts";
import { vclusterCalled as called, vclusterKey as vcluster } from "./vcluster-names.ts";

/** Open: a node that is newer may say more. */
const answer = <P extends TProperties>(properties: P) => Type.Object(properties);

const vmid = Type.Integer({ minimum: 1, maximum: 999_999_999 });
const port = Type.Integer({ minimum: 1, maximum: 65_535 });

export const UpidAnswer = Type.String({ pattern: "^UPID:" });
export const NoAnswer = Type.Null();

export const ReplicateRequest = request({
  vmid,
  job: Type.String(),
  target: Type.String(),
  moveId: Type.String(),
  rate: Type.Optional(Type.Number({ description: "MB/s" })),
  replaces: Type.Optional(Type.Array(Type.String())),
});
export const DropReplicaRequest = request({
  vmid,
  keep: Type.Boolean({ description: "Its volumes stay." }),
});
export const ReplicaAnswer = answer({
  job: Type.String(),
  at: Type.Number({ description: "Seconds since 1970." }),
  from: Type.String(),
  volumes: Type.Array(
    answer({ key: Type.String(), source: Type.String(), volid: Type.String(), bytes: Type.Number() }),
  ),
});

export const ProbeRequest = request({ requestId });

export const ImagesRequest = request({ storage: Type.String() });
export const ImageRequest = request({ image: Type.String(), storage: Type.String(), requestId });
export const ImagesAnswer = Type.Array(
  answer({
    name: Type.String(),
    about: Type.String(),
    pull: Type.Boolean(),
    build: Type.Boolean(),
    volume: Type.Optional(Type.String({ description: "The volume it lies in, if it is here." })),
    sizeBytes: Type.Optional(Type.Number()),
    time: Type.Optional(Type.Number({ description: "Seconds since 1970." })),
  }),
);
export type ImageRow = Static<typeof ImagesAnswer>[number];

const componentWay = Type.Union([
  Type.Literal("download"),
  Type.Literal("debian"),
  Type.Literal("go"),
  Type.Literal("import"),
]);
const component = Type.String({ pattern: "^[a-z][a-z0-9-]{0,39}$" });
const componentVersion = Type.String({ pattern: "^[0-9A-Za-z][0-9A-Za-z.+-]{0,39}$" });
export const ComponentsRequest = request({});
export const ComponentInstallRequest = request({
  component,
  version: Type.Optional(componentVersion),
  from: Type.Optional(componentWay),
  requestId,
});
export const ComponentVerifyRequest = request({
  component,
  version: Type.Optional(componentVersion),
  requestId,
});
export const ComponentImportRequest = request({
  component,
  version: componentVersion,
  path: Type.String({ pattern: "^/" }),
  requestId,
});
export const ComponentsAnswer = Type.Array(
  answer({
    name: Type.String(),
    about: Type.String(),
    version: Type.String(),
    ways: Type.Array(Type.String({ description: "How it can be had." })),
    installed: Type.Optional(Type.String({ description: "How it came here, if it is here." })),
    sizeBytes: Type.Optional(Type.Number()),
    time: Type.Optional(Type.Number({ description: "Seconds since 1970." })),
  }),
);
export type ComponentRow = Static<typeof ComponentsAnswer>[number];

/** The node compares the tenant with the cluster's own. */
export const NewVclusterRequest = request({
  vcluster,
  called,
  tenant,
  spec: Type.Record(Type.String(), Type.Unknown()),
  requestId,
  /** Where it is on several nodes: the same on all of them. */
  network: Type.Optional(Type.Integer({ minimum: 0, maximum: 4095 })),
  overlay: Type.Optional(OverlaySchema),
  /** What signs for it, for a node that has workers and no control plane. */
  secrets: Type.Optional(Type.Record(Type.String(), Type.String())),
});
export const VclusterAuthorityAnswer = answer({
  version: Type.String(),
  secrets: Type.Record(Type.String(), Type.String()),
});
export const VclusterRequest = request({ vcluster, tenant });
export const VclusterWorkRequest = request({ vcluster, tenant, requestId });
/** `keepVolumes`: it lives on, on other nodes; what its persistent volumes have here is put aside. `force`: they go with it. */
export const VclusterDeleteRequest = request({
  vcluster,
  tenant,
  requestId,
  keepVolumes: Type.Optional(Type.Boolean()),
  force: Type.Optional(Type.Boolean()),
});
/** Persistent volumes that its workers have here now. */
export const VclusterVolumesAnswer = Type.Array(answer({ vnode: Type.String(), name: Type.String() }));
/** Of one cluster where it is named, else of all that the node has. */
export const VclusterPodsAnswer = Type.Array(
  answer({
    vcluster: Type.String(),
    tenant: Type.String(),
    vnode: Type.String(),
    namespace: Type.String(),
    name: Type.String(),
    uid: Type.String(),
  }),
);
export type VclusterPodRow = Static<typeof VclusterPodsAnswer>[number];
export const VclusterPodsRequest = request({});
export const VclusterScaleRequest = request({
  vcluster,
  tenant,
  workers: Type.Integer({ minimum: 0, maximum: 1000 }),
  pool: Type.Optional(Type.String()),
  requestId,
});
/** Whether it could have as many: refused as the work itself. */
export const VclusterScalableRequest = request({
  vcluster,
  tenant,
  workers: Type.Integer({ minimum: 0, maximum: 1000 }),
  pool: Type.Optional(Type.String()),
});
/** How many it is to have now. */
export const VclusterScalableAnswer = answer({ workers: Type.Integer({ minimum: 0 }) });
export const VclusterWakeRequest = request({
  vcluster,
  tenant,
  requestId,
  /** It does not sleep by itself before. */
  forSeconds: Type.Optional(Type.Integer({ minimum: 1 })),
});
export const VclusterSleepRequest = request({
  vcluster,
  tenant,
  requestId,
  mode: Type.Union([Type.Literal("cold"), Type.Literal("warm")]),
});
export const VclusterSleepPolicyRequest = request({
  vcluster,
  tenant,
  mode: Type.Union([Type.Literal("cold"), Type.Literal("warm"), Type.Literal("none")]),
  afterIdleSeconds: Type.Integer({ minimum: 1 }),
  keepAwake: Type.Optional(Type.Array(Type.String({ maxLength: 100 }), { maxItems: 10 })),
  sleepAt: Type.Optional(Type.String({ maxLength: 100 })),
  wakeAt: Type.Optional(Type.String({ maxLength: 100 })),
});
const amount = Type.Optional(Type.Union([Type.String({ maxLength: 40 }), Type.Number()]));
export const VclusterQuotaRequest = request({
  vcluster,
  tenant,
  /** All of it: what is not said has no bound. */
  quota: Type.Object({ cpu: amount, memory: amount, storage: amount }, { additionalProperties: false }),
});
export const VclusterKubeconfigRequest = request({
  vcluster,
  tenant,
  hours: Type.Integer({ minimum: 1, maximum: 8784 }),
  /** Where it is to be asked: who listens there passes it on by its name. */
  server: Type.Optional(Type.String({ pattern: "^https://[A-Za-z0-9.:\\[\\]-]+$", maxLength: 300 })),
});
export const VclusterKubeconfigAnswer = answer({
  id: Type.String(),
  kubeconfig: Type.String(),
  expiresAt: Type.Number(),
});
export const VclusterKubeconfigsRequest = request({ vcluster, tenant });
export const VclusterKubeconfigsAnswer = Type.Array(
  answer({ id: Type.String(), user: Type.String(), expiresAt: Type.Optional(Type.Number()) }),
);
export const VclusterRevokeRequest = request({ vcluster, tenant, id: Type.String() });

/** `config`: the parameters of PVE's method; the rest is what PVE has no word for. */
export const NewVmRequest = request({
  vmid,
  pool: Type.Optional(Type.String()),
  config: Type.Record(Type.String(), Type.String()),
  running: Type.Optional(Type.Boolean()),
  microvm: Type.Optional(
    Type.Object(
      {
        kernel: Type.String(),
        initrd: Type.Optional(Type.String()),
        cmdline: Type.Optional(Type.String()),
      },
      { additionalProperties: false },
    ),
  ),
});
/** Only the VM that was meant: by the digest of its configuration, or by the request it was made by. */
export const RemoveVmRequest = request({
  vmid,
  digest: Type.Optional(Type.String()),
  madeBy: Type.Optional(Type.String()),
});

/** `backup`: as /api/v1 has it, without where it goes. */
export const BackUpVmRequest = request({
  vmid,
  storage: Type.String(),
  backup: Type.Omit(VmBackupRequestSchema, ["storage"], { additionalProperties: false }),
  requestId,
});
export const VmRequest = request({ vmid });
export const ScreenshotAnswer = answer({ png: Type.String({ description: "Base64." }) });
export const LogAnswer = answer({ lines: Type.Array(Type.String()) });

export const ConsoleRequest = request({
  vmid,
  kind: Type.Union([Type.Literal("vnc"), Type.Literal("terminal")]),
  serial: Type.Optional(Type.String()),
});
export const ShellRequest = request({ command: Type.String() });
export const ConsoleOfferAnswer = answer({
  port,
  upid: UpidAnswer,
  password: Type.String(),
});
export const SpiceOfferAnswer = answer({
  password: Type.String(),
  title: Type.String({ description: "What viewers call the console." }),
});

/**
 * Activated on the node as it would be; nothing is kept of it. `onlyPlace`: nothing is made either, it is only looked
 * whether its directories may be a storage's.
 */
export const StorageCheckRequest = request({
  definition: Type.Object({
    storage: Type.String(),
    type: Type.String(),
    options: Type.Record(Type.String(), Type.Unknown()),
  }),
  onlyPlace: Type.Optional(Type.Boolean()),
  /** What is not in the definition: it is kept by servers once the storage is there. */
  secrets: Type.Optional(Type.Record(Type.String(), Type.String())),
});
/** `onlyPlace`: a directory that is not there is no fault, only one that no guest may have. */
export const MappingCheckRequest = request({
  type: Type.Union([Type.Literal("pci"), Type.Literal("usb"), Type.Literal("dir")]),
  mappings: Type.Array(
    Type.Object({ id: Type.String(), map: Type.Array(Type.String()) }, { additionalProperties: false }),
  ),
  onlyPlace: Type.Optional(Type.Boolean()),
});
/** Of each mapping what is wrong with it on that node. */
export const MappingCheckAnswer = Type.Array(Type.Array(Type.String()));

export const ConsoleTunnelRequest = request({ vmid, port });
export const ShellTunnelRequest = request({ port });
/** How its bytes are to be read. */
export const ConsoleTunnelAnswer = answer({
  kind: Type.Union([Type.Literal("vnc"), Type.Literal("terminal"), Type.Literal("shell")]),
});
export type ConsoleOpened = Static<typeof ConsoleTunnelAnswer>;
export const SpiceTunnelAnswer = answer({ kind: Type.Literal("spice") });

/** A line to a TCP port of a VM; without an address, to one that the node sees at its cards. */
export const GuestPortRequest = request({ vmid, port, address: Type.Optional(Type.String()) });
export const GuestPortAnswer = answer({ kind: Type.Literal("port"), address: Type.String() });
export type GuestPortOpened = Static<typeof GuestPortAnswer>;

/** A line that a running VM of another cluster comes by. */
export const MtunnelRequest = request({
  vmid,
  storages: Type.Optional(Type.String()),
  bridges: Type.Optional(Type.String()),
});
export const MtunnelAnswer = answer({ upid: Type.String(), socket: Type.String(), ticket: Type.String() });
export const MtunnelTunnelRequest = request({ vmid, socket: Type.String(), ticket: Type.String() });
export const MtunnelTunnelAnswer = answer({ kind: Type.Literal("mtunnel") });

/** A body of so many bytes at most, or one that nobody takes. */
export const UploadRequest = request({
  storage: Type.String(),
  length: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  discard: Type.Optional(Type.String()),
});
/** Where the bytes will lie on the node: the parameter `tmpfilename` of the call that follows. */
export const UploadAnswer = Type.Union([answer({ path: Type.String() }), NoAnswer]);
/** What the node sends through the tunnel when it has written the last byte. */
export const UploadStoredAnswer = answer({ bytes: Type.Integer({ minimum: 0 }) });
export type UploadStored = Static<typeof UploadStoredAnswer>;
