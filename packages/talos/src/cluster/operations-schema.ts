// cluster.yaml: Talos' own settings, add-ons, backups, secrets and guards.
import { Type } from "typebox";
import {
  count,
  defaultSection,
  flag,
  freeMap,
  list,
  oneOf,
  orNull,
  patches,
  plainText,
  section,
} from "./schema-parts.ts";

export const talos = defaultSection(
  {
    discovery: defaultSection(
      { enabled: flag(true), endpoint: orNull(plainText()) },
      "how machines find another",
    ),
    kubespan: flag(false),
    diskEncryption: oneOf(["none", "tpm", "static"], "none"),
    registries: defaultSection(
      { mirrors: Type.Record(Type.String(), Type.Array(plainText(), { minItems: 1 }), { default: {} }) },
      "where images are pulled",
    ),
    patches: patches(),
  },
  "Talos itself",
);

export const addons = defaultSection(
  {
    cni: defaultSection(
      {
        type: oneOf(["cilium", "flannel", "none"], "cilium"),
        version: orNull(plainText()),
        values: freeMap(),
      },
      "the network of pods",
    ),
    ccm: defaultSection(
      {
        proxmox: defaultSection(
          { enabled: flag(true), credentials: oneOf(["managed", "given"], "managed") },
          "Proxmox' cloud controller",
        ),
        talos: defaultSection({ enabled: flag(true) }, "Talos' cloud controller"),
      },
      "cloud controllers",
    ),
    csi: defaultSection(
      {
        proxmox: Type.Optional(settings()),
        nfs: Type.Optional(settings()),
        ceph: Type.Optional(settings()),
        localPath: Type.Optional(settings()),
        default: orNull(Type.Enum(["proxmox", "nfs", "ceph", "localPath"])),
      },
      "storage for pods",
    ),
    metricsServer: flag(true),
    gitops: defaultSection(
      { flux: Type.Optional(gitSource()), argocd: Type.Optional(gitSource()) },
      "a repository that the cluster follows",
    ),
    monitoring: defaultSection({ prometheusCRDs: flag(true), kubePrometheusStack: flag(false) }, "metrics"),
    logging: defaultSection({ type: oneOf(["none", "loki", "efk"], "none") }, "logs"),
    policies: defaultSection(
      {
        defaultDeny: flag(false),
        podSecurity: oneOf(["privileged", "baseline", "restricted"], "baseline"),
        rbac: list(freeMap()),
      },
      "what pods and people may do",
    ),
  },
  "what is installed into the cluster",
);

/** There when it is named: an add-on that nobody asked for must not appear by default. */
function settings() {
  return Type.Record(Type.String(), Type.Unknown());
}

function gitSource() {
  return section(
    { repo: orNull(plainText()), path: orNull(plainText()), branch: orNull(plainText()) },
    "a Git repository",
  );
}

export const backup = defaultSection(
  {
    etcd: defaultSection(
      {
        schedule: Type.String({ minLength: 9, default: "0 */6 * * *" }),
        keep: count(1, 10_000, 28),
        to: Type.Array(Type.Enum(["dir", "s3", "pbs"]), { minItems: 1, default: ["dir"] }),
        encrypt: oneOf(["age", "none"], "age"),
      },
      "snapshots of etcd",
    ),
  },
  "backups",
);

export const secrets = defaultSection(
  {
    file: Type.String({ minLength: 1, default: "secrets.enc.yaml" }),
    backend: oneOf(["age", "sops"], "age"),
    recipients: list(plainText()),
  },
  "where the cluster's secrets are kept",
);

export const protect = defaultSection({ destroy: flag(true), minWorkers: count(0, 5000, 1) }, "guards");
