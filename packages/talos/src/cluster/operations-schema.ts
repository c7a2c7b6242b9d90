// cluster.yaml: Talos' own settings, add-ons, backups, secrets and guards.
import { Type } from "typebox";
import {
  count,
  defaultSection,
  flag,
  freeMap,
  label,
  list,
  oneOf,
  orNull,
  patches,
  plainText,
  secretRef,
  section,
  stringMap,
  webUrl,
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
      { mirrors: Type.Record(Type.String(), Type.Array(webUrl(), { minItems: 1 }), { default: {} }) },
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
        localStorage: Type.Optional(settings()),
        default: orNull(Type.Enum(["proxmox", "nfs", "ceph", "localPath", "localStorage"])),
      },
      "storage for pods",
    ),
    loadBalancer: defaultSection(
      { type: oneOf(["none", "cilium", "metallb"], "none"), addresses: list(plainText()) },
      "addresses of Services of type LoadBalancer",
    ),
    ingress: defaultSection(
      { type: oneOf(["none", "traefik", "gateway"], "none") },
      "how requests from outside come in",
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
    versions: stringMap(),
    values: Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), { default: {} }),
    offlineDir: orNull(plainText()),
    mirrors: stringMap(),
    sources: Type.Record(Type.String(), addonSource(), { default: {} }),
    extra: list(
      section(
        {
          name: label(),
          namespace: Type.String({ minLength: 1, default: "default" }),
          version: Type.String({ minLength: 1, default: "1" }),
          manifest: Type.Optional(plainText()),
          chart: Type.Optional(plainText()),
          sha256: Type.Optional(checksum()),
        },
        "an add-on of your own: a manifest or a chart, by its address or its file",
      ),
    ),
  },
  "what is installed into the cluster",
);

function addonSource() {
  return section(
    {
      manifest: Type.Optional(plainText()),
      chart: Type.Optional(plainText()),
      sha256: Type.Optional(checksum()),
    },
    "where an add-on comes from instead; {version} stands for its version",
  );
}

function checksum() {
  return Type.String({ pattern: "^[0-9a-f]{64}$", description: "a SHA-256 in hex" });
}

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

const TARGETS =
  "dir: here; s3: a bucket; for a Proxmox Backup Server back the folder .deployer up there by its own client";

export const backup = defaultSection(
  {
    etcd: defaultSection(
      {
        schedule: Type.String({ minLength: 1, default: "0 */6 * * *" }),
        keep: count(1, 10_000, 28),
        to: Type.Array(Type.Enum(["dir", "s3"], { description: TARGETS }), {
          minItems: 1,
          default: ["dir"],
          description: "the newest always lies here as well",
        }),
        s3: Type.Optional(
          section(
            {
              endpoint: Type.String({ format: "uri", description: "https://s3.example.org" }),
              region: Type.String({ minLength: 1, default: "us-east-1" }),
              bucket: Type.String({ pattern: "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$" }),
              prefix: Type.String({
                pattern: "^([A-Za-z0-9_.-]+/)*$",
                default: "",
                description: "folders before the cluster's own, with a slash at the end",
              }),
              accessKeyRef: secretRef("where the access key is read"),
              secretKeyRef: secretRef("where the secret key is read"),
            },
            "a bucket for snapshots; whoever has these keys needs to put, get, list and delete in it",
          ),
        ),
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
