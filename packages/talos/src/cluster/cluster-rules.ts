// What a schema cannot say: values that do not go together.
import { isIP } from "node:net";
import { contractOf } from "../contract/contracts.ts";
import { checkKubernetesVersion } from "../contract/kubernetes-versions.ts";
import type { FindingId } from "../findings/catalogue.ts";
import { addonRules } from "./addon-rules.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import { canonicalAddress, contains, isNetwork, networkOf, overlap, unusableAs } from "./networks.ts";
import type { Problem } from "./problem.ts";
import { type Rule, valueRules } from "./value-rules.ts";

export function clusterProblems(cluster: ClusterFile): readonly Problem[] {
  return rules.flatMap((rule) => rule(cluster));
}

const problem = (id: FindingId, message: string, ...path: readonly (string | number)[]): Problem => ({
  id,
  path,
  message,
});
const attempt = (id: FindingId, action: () => unknown, ...path: readonly string[]): readonly Problem[] => {
  try {
    action();
    return [];
  } catch (err) {
    return [problem(id, `cannot be used: ${(err as Error).message}`, ...path)];
  }
};

const versions: Rule = ({ versions: { talos, kubernetes, contract } }) => {
  const unknown = [
    ...attempt("talos-version", () => contractOf(talos), "versions", "talos"),
    ...(contract === undefined
      ? []
      : attempt("talos-version", () => contractOf(contract), "versions", "contract")),
  ];
  if (unknown.length > 0) return unknown;
  const newest = contractOf(talos).name;
  // Older contracts stay valid on newer machines; the names sort as the versions do.
  if (contract !== undefined && contract > newest) {
    return [
      problem(
        "contract-newer",
        `is newer than Talos ${talos}, which knows ${newest}`,
        "versions",
        "contract",
      ),
    ];
  }
  return kubernetes === undefined
    ? []
    : attempt(
        "kubernetes-version",
        () => checkKubernetesVersion(newest, kubernetes),
        "versions",
        "kubernetes",
      );
};

const quorum: Rule = ({ controlPlane: { count } }) =>
  count % 2 === 1
    ? count <= 5
      ? []
      : [
          problem(
            "value-wrong",
            `is ${count}: use 1, 3 or 5; every write waits for more than half of etcd's members`,
            "controlPlane",
            "count",
          ),
        ]
    : [
        problem(
          "control-planes-even",
          `is ${count}: an even number of etcd members is lost as easily as one less; use 1, 3 or 5`,
          "controlPlane",
          "count",
        ),
      ];

const oneEndpoint: Rule = ({ endpoint, controlPlane }) => {
  const given = (["vip", "loadBalancer", "dns"] as const).filter((key) => endpoint[key] !== undefined);
  // A single control plane is reached by its own address.
  if (given.length === 1 || (given.length === 0 && controlPlane.count === 1)) return [];
  const isNamedVip = endpoint.vip !== undefined && endpoint.dns !== undefined && given.length === 2;
  if (!isNamedVip) {
    const message = "needs exactly one of vip, loadBalancer and dns, or vip and dns, its name";
    return [problem("endpoint-ambiguous", message, "endpoint")];
  }
  return isIP(endpoint.dns ?? "") === 0
    ? []
    : [problem("endpoint-ambiguous", "is an address beside vip; it must be a name of it", "endpoint", "dns")];
};

const addresses: Rule = ({ network, endpoint, nodes }) => {
  const nodeNetworks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  const isInside = (address: string): boolean => nodeNetworks.some((cidr) => contains(cidr, address));
  const where = nodeNetworks.join(" or ");
  const inside = (
    id: FindingId,
    address: string | undefined,
    ...path: readonly string[]
  ): readonly Problem[] => {
    if (address === undefined) return [];
    if (!isInside(address))
      return [problem(id, `is ${address}, outside the machines' network ${where}`, ...path)];
    const kind = unusableAs(network.nodeCIDR, address);
    return kind === undefined
      ? []
      : [problem("address-unusable", `is ${address}, ${kind} ${network.nodeCIDR}`, ...path)];
  };
  return [
    ...inside("address-outside-network", network.gateway, "network", "gateway"),
    ...inside("vip-outside-network", endpoint.vip, "endpoint", "vip"),
    ...inside("vip-outside-network", endpoint.front?.vip, "endpoint", "front", "vip"),
    ...Object.entries(nodes).flatMap(([name, { ip }]) =>
      inside("address-outside-network", ip, "nodes", name, "ip"),
    ),
  ];
};

const addressesOnce: Rule = ({ network, endpoint, nodes }) => {
  const owners = new Map([[canonicalAddress(network.gateway), "the gateway's"]]);
  const problems: Problem[] = [];
  const claim = (address: string | undefined, owner: string, ...path: readonly string[]): void => {
    if (address === undefined) return;
    const other = owners.get(canonicalAddress(address));
    if (other === undefined) owners.set(canonicalAddress(address), owner);
    else problems.push(problem("address-twice", `is ${other} address`, ...path));
  };
  claim(endpoint.vip, "the VIP's", "endpoint", "vip");
  claim(endpoint.front?.vip, "the front's", "endpoint", "front", "vip");
  if (endpoint.loadBalancer?.backendsManaged === "vm")
    claim(endpoint.loadBalancer.address, "the load balancer's", "endpoint", "loadBalancer", "address");
  for (const [name, { ip }] of Object.entries(nodes)) claim(ip, `${name}'s`, "nodes", name, "ip");
  const cards = new Map<string, string>();
  for (const [name, { mac }] of Object.entries(nodes)) {
    const other = cards.get(mac?.toUpperCase() ?? "");
    if (other !== undefined)
      problems.push(problem("address-twice", `is ${other}'s MAC address`, "nodes", name, "mac"));
    else if (mac !== null) cards.set(mac.toUpperCase(), name);
  }
  return problems;
};

const idsOnce: Rule = ({ nodes }) => {
  const owners = new Map<number, string>();
  return Object.entries(nodes).flatMap(([name, { vmid }]) => {
    if (vmid === undefined) return [];
    const other = owners.get(vmid);
    owners.set(vmid, name);
    return other === undefined ? [] : [problem("vmid-twice", `is ${other}'s`, "nodes", name, "vmid")];
  });
};

/** Of machines that have no name of their own it is known too. */
const hostnamesOnce: Rule = ({ metadata, controlPlane, pools, nodes }) => {
  const owners = new Map<string, string>();
  const members = [{ name: "cp", count: controlPlane.count }, ...pools].flatMap(({ name, count }) =>
    Array.from({ length: count }, (_, at) => `${metadata.name}-${name}-${at + 1}`),
  );
  // Of pools that have one name it is the pools that are told.
  return [...new Set(members)].flatMap((name) => {
    const hostname = nodes[name]?.hostname ?? name;
    const other = owners.get(hostname);
    owners.set(hostname, name);
    return other === undefined
      ? []
      : [problem("names-clash", `has the hostname ${hostname}, which is ${other}'s`, "nodes", name)];
  });
};

const hosts: Rule = ({ providers, nodes, placement, controlPlane }) => {
  const known = providers.flatMap((provider) => provider.nodes);
  return [
    ...Object.entries(nodes).flatMap(([name, { host }]) =>
      host === undefined || known.includes(host)
        ? []
        : [
            problem(
              "host-unknown",
              `is no node of a provider; they list ${known.join(", ")}`,
              "nodes",
              name,
              "host",
            ),
          ],
    ),
    ...(placement.spread === "required" && controlPlane.count > known.length
      ? [
          problem(
            "spread-impossible",
            `is required, but ${controlPlane.count} control planes have ${known.length} ${known.length === 1 ? "node" : "nodes"}`,
            "placement",
            "spread",
          ),
        ]
      : []),
  ];
};

const jumps: Rule = ({ providers }) =>
  providers.flatMap(({ type, jump }, at) => {
    const wrong = (message: string, key: string, id: FindingId = "value-wrong"): readonly Problem[] => [
      problem(id, message, "providers", at, "jump", key),
    ];
    if (jump === undefined) return [];
    if (jump.kind === "ssh") return jump.host === undefined ? wrong("is missing", "host", "key-missing") : [];
    if (jump.host !== undefined) return wrong("belongs to kind: ssh; platform needs no host", "host");
    return type === "gpve"
      ? []
      : wrong(
          `is platform, which only a provider of type gpve has; this one is ${type}: name a host for SSH`,
          "kind",
        );
  });

const networks: Rule = ({ network }) => {
  const all = [
    { path: ["network", "nodeCIDR"], cidr: network.nodeCIDR },
    ...(network.nodeCIDR6 === null ? [] : [{ path: ["network", "nodeCIDR6"], cidr: network.nodeCIDR6 }]),
    ...network.podCIDRs.map((cidr, index) => ({ path: ["network", "podCIDRs", index], cidr })),
    ...network.serviceCIDRs.map((cidr, index) => ({ path: ["network", "serviceCIDRs", index], cidr })),
  ];
  return all.flatMap(({ path, cidr }, index): readonly Problem[] => {
    if (!isNetwork(cidr)) return [{ id: "network-invalid", path, message: `is no network: ${cidr}` }];
    const whole = networkOf(cidr);
    if (canonicalAddress(cidr.split("/")[0] ?? "") !== whole.split("/")[0]) {
      const message = `is ${cidr}, an address in a network; the network is ${whole}`;
      return [{ id: "network-invalid", path, message }];
    }
    const other = all.slice(0, index).find((earlier) => overlap(earlier.cidr, cidr));
    return other === undefined
      ? []
      : [
          {
            id: "networks-overlap",
            path,
            message: `is ${cidr} and overlaps ${other.path.join(".")} (${other.cidr})`,
          },
        ];
  });
};

const vmidRanges: Rule = ({ vmids }) => {
  const ranges = (["template", "controlPlane", "worker"] as const).map((key) => {
    const [from = 0, to = 0] = vmids[key].split("-").map(Number);
    return { key, from, to };
  });
  return ranges.flatMap(({ key, from, to }, index) => {
    if (from > to) return [problem("vmid-ranges", "ends before it begins", "vmids", key)];
    const other = ranges.slice(0, index).find((earlier) => earlier.from <= to && from <= earlier.to);
    return other === undefined ? [] : [problem("vmid-ranges", `overlaps vmids.${other.key}`, "vmids", key)];
  });
};

const storagePools: Rule = ({ pools }) =>
  pools.flatMap(({ name, role, machine }, index) =>
    role === "storage" && machine.extraDisks.length === 0
      ? [problem("storage-pool-diskless", `${name} has no disk to store on`, "pools", index, "machine")]
      : [],
  );

const names: Rule = ({ metadata, controlPlane, pools, providers, nodes }) => {
  const twice = (list: readonly { readonly name: string }[], key: string): readonly Problem[] =>
    list.flatMap(({ name }, index) =>
      list.findIndex((other) => other.name === name) < index
        ? [problem("names-clash", `${name} is there twice`, key, index, "name")]
        : [],
    );
  const counts = [{ name: "cp", count: controlPlane.count }, ...pools];
  const isMachine = (name: string): boolean =>
    counts.some(({ name: pool, count }) => {
      const number = name.startsWith(`${metadata.name}-${pool}-`)
        ? name.slice(`${metadata.name}-${pool}-`.length)
        : "";
      return /^[1-9]\d*$/.test(number) && Number(number) <= count;
    });
  return [
    ...twice(pools, "pools"),
    ...twice(providers, "providers"),
    ...pools.flatMap(({ name }, index) =>
      name === "cp"
        ? [problem("names-clash", "cp is the name of the control planes", "pools", index, "name")]
        : [],
    ),
    ...Object.keys(nodes)
      .filter((name) => !isMachine(name))
      .map((name) =>
        problem(
          "node-unknown",
          `is no machine of this cluster; they are called ${metadata.name}-cp-1 and the like`,
          "nodes",
          name,
        ),
      ),
  ];
};

const providerAccess: Rule = ({ providers }) =>
  providers.flatMap(({ type, endpoint, tokenRef }, index) =>
    type === "qm"
      ? []
      : [
          ...(endpoint === undefined
            ? [
                problem(
                  "provider-incomplete",
                  `is missing: ${type} is reached over the network`,
                  "providers",
                  index,
                  "endpoint",
                ),
              ]
            : []),
          ...(tokenRef === undefined
            ? [
                problem(
                  "provider-incomplete",
                  `is missing: ${type} asks for a token`,
                  "providers",
                  index,
                  "tokenRef",
                ),
              ]
            : []),
        ],
  );

const oneImage: Rule = ({ image: { archive, boot, offlineDir } }) => {
  if (archive === null || (boot === "disk" && offlineDir === null)) return [];
  const other = boot === "iso" ? "image.boot: iso" : "image.offlineDir";
  return [problem("image-ambiguous", `is another image than ${other}; keep one of them`, "image", "archive")];
};

/** Until v1.12 a card has one VIP. */
const oneVip: Rule = ({ endpoint, versions: { contract, talos } }) =>
  endpoint.front !== undefined && endpoint.vip !== undefined && /^v?1\.1?[01]?(\.|$)/.test(contract ?? talos)
    ? [
        problem(
          "front-beside-vip",
          "needs a contract of v1.12 or newer beside endpoint.vip",
          "endpoint",
          "front",
        ),
      ]
    : [];

const snapshots: Rule = ({ backup }) =>
  backup.etcd.to.includes("s3") && backup.etcd.s3 === undefined
    ? [problem("snapshot-target", "names s3, and backup.etcd.s3 is not there", "backup", "etcd", "to")]
    : [];

const rules: readonly Rule[] = [
  oneImage,
  versions,
  quorum,
  oneEndpoint,
  addresses,
  addressesOnce,
  idsOnce,
  hostnamesOnce,
  hosts,
  jumps,
  networks,
  vmidRanges,
  names,
  storagePools,
  providerAccess,
  oneVip,
  snapshots,
  ...valueRules,
  ...addonRules,
];
