// cluster.yaml: images, where machines are made, and the network they are in.
import { Type } from "typebox";
import {
  address,
  addressRange,
  certifiedName,
  cidr,
  count,
  defaultSection,
  domain,
  fingerprint,
  flag,
  host,
  idRange,
  list,
  oneOf,
  orNull,
  plainText,
  platformUrl,
  schematicWord,
  secretRef,
  section,
  tags,
  timeServer,
  webUrl,
} from "./schema-parts.ts";

export const image = defaultSection(
  {
    factory: Type.String({ ...webUrl(), default: "https://factory.talos.dev" }),
    mirrors: list(webUrl()),
    offlineDir: orNull(plainText()),
    boot: Type.Enum(["disk", "iso"], {
      default: "disk",
      description:
        "the disk's own image, or an ISO that installs Talos to an empty disk and is detached after",
    }),
    archive: orNull(
      Type.String({
        pattern: "\\.raw(\\.(xz|zst|gz))?$",
        description:
          "a packed disk image instead of the factory's, by URL or path, with {version} and {arch} in it; unpacked here",
      }),
    ),
    platform: oneOf(["nocloud", "metal"], "nocloud"),
    arch: oneOf(["amd64", "arm64"], "amd64"),
    secureboot: flag(false),
    extensions: list(schematicWord(), ["siderolabs/qemu-guest-agent"]),
    kernelArgs: list(schematicWord()),
    sha256: orNull(Type.String({ pattern: "^[0-9a-f]{64}$" })),
  },
  "the Talos image, from an Image Factory",
);

export const provider = section(
  {
    name: plainText(),
    type: Type.Enum(["pve-api", "qm", "gpve"]),
    endpoint: Type.Optional(platformUrl()),
    tokenRef: Type.Optional(secretRef("where the token is read")),
    tls: defaultSection(
      { fingerprint: orNull(fingerprint()), caFile: orNull(plainText()), insecure: flag(false) },
      "how the platform's certificate is judged",
    ),
    pool: orNull(plainText()),
    jump: Type.Optional(
      section(
        {
          kind: Type.Enum(["ssh", "platform"], {
            default: "ssh",
            description:
              "ssh: through `host`, by SSH; platform: through the API of a provider of type gpve, by lines to ports of its guests",
          }),
          host: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9.:-]*$" })),
          user: Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_.-]*$", default: "root" }),
          port: count(1, 65_535, 22),
          identityFile: orNull(plainText()),
          knownHosts: orNull(plainText()),
        },
        "what reaches the machines, when they are not routed from here",
      ),
    ),
    nodes: Type.Array(plainText(), { minItems: 1 }),
    storage: section(
      { image: plainText(), vm: plainText(), efi: plainText(), cloudinit: plainText() },
      "the storage of each kind of volume",
    ),
  },
  "a platform that runs the machines",
);

export const placement = defaultSection(
  {
    spread: oneOf(["required", "preferred"], "preferred"),
    key: oneOf(["host"], "host"),
    reserveMemoryPercent: count(0, 90, 10),
  },
  "how machines are spread over nodes",
);

export const network = section(
  {
    nodeCIDR: cidr(),
    nodeCIDR6: orNull(cidr()),
    gateway: address(),
    dns: list(address()),
    ntp: list(timeServer()),
    search: list(domain()),
    bridge: Type.String({ minLength: 1, default: "vmbr0" }),
    vlan: orNull(Type.Integer({ minimum: 1, maximum: 4094 })),
    mtu: Type.Union([Type.Literal("auto"), Type.Integer({ minimum: 1280, maximum: 65_520 })], {
      default: "auto",
      description: "auto, or a whole number from 1280 to 65520",
    }),
    addressing: Type.Enum(["static", "dhcp"], {
      default: "static",
      description:
        "dhcp: machines ask for their IPv4 addresses, and your server gives each the one this file says, by its MAC; `talos render` writes dhcp-hosts.conf for dnsmasq",
    }),
    ipam: defaultSection(
      {
        controlPlaneOffset: count(1, 65_535, 10),
        workerOffset: count(1, 65_535, 20),
        reserve: Type.Array(addressRange(), {
          default: [],
          description: "never given to a machine; ranges like 10.0.0.100-10.0.0.150 too",
        }),
        probe: flag(true),
      },
      "which addresses machines get",
    ),
    podCIDRs: Type.Array(cidr(), { minItems: 1, maxItems: 2, default: ["10.244.0.0/16"] }),
    serviceCIDRs: Type.Array(cidr(), { minItems: 1, maxItems: 2, default: ["10.96.0.0/12"] }),
    dnsDomain: Type.String({ ...domain(), default: "cluster.local" }),
  },
  "the network of machines, pods and services",
);

export const endpoint = section(
  {
    vip: Type.Optional(address()),
    loadBalancer: Type.Optional(
      section(
        {
          address: host(),
          backendsManaged: Type.Enum(["none", "haproxy", "vm"], {
            default: "none",
            description:
              "haproxy: render writes its configuration; vm: a small machine of ours, from the image that `gpvectl image build lb` makes",
          }),
          vm: defaultSection(
            {
              host: Type.Optional(plainText()),
              vmid: Type.Optional(Type.Integer({ minimum: 100, maximum: 999_999_999 })),
              cores: count(1, 64, 1),
              memoryMiB: count(256, 65_536, 384, "MiB"),
            },
            "that machine; by itself on the first node, with the last VMID of vmids.template",
          ),
        },
        "a load balancer before the API",
      ),
    ),
    dns: Type.Optional(host()),
    front: Type.Optional(
      section(
        { vip: address(), holds: flag(false) },
        "a VIP that goes from one cluster to another with `talos switch`; only one of them may hold it",
      ),
    ),
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      default: 6443,
      description:
        "of the endpoint; the API servers listen there too, unless loadBalancer, or dns without vip, leads to their 6443",
    }),
    extraSANs: list(certifiedName()),
  },
  "where the Kubernetes API is reached",
);

export const vmids = defaultSection(
  { template: idRange("9000-9099"), controlPlane: idRange("2000-2999"), worker: idRange("3000-3999") },
  "VMIDs, apart for templates and roles",
);

export const templates = defaultSection(
  {
    controlPlane: orNull(Type.Integer({ minimum: 100, maximum: 999_999_999 })),
    worker: orNull(Type.Integer({ minimum: 100, maximum: 999_999_999 })),
    nodes: list(plainText()),
    tags: tags(),
    clone: orNull(
      Type.Enum(["full", "linked"], {
        description:
          "machines are copies of a template, or read from its disks; null: full where anything else of templates is said, else no templates",
      }),
    ),
  },
  "templates per version and role: where they lie and under which VMIDs; without, the first free ones of vmids.template",
);
