// What a schema cannot say: values that do not go together.
import { contractOf } from "../contract/contracts.ts";
import { checkKubernetesVersion } from "../contract/kubernetes-versions.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import { contains, isNetwork, overlap } from "./networks.ts";
import type { Problem } from "./problem.ts";

type Rule = (cluster: ClusterFile) => readonly Problem[];

export function clusterProblems(cluster: ClusterFile): readonly Problem[] {
  return rules.flatMap((rule) => rule(cluster));
}

const problem = (message: string, ...path: readonly (string | number)[]): Problem => ({ path, message });
const attempt = (action: () => unknown, ...path: readonly string[]): readonly Problem[] => {
  try {
    action();
    return [];
  } catch (err) {
    return [problem(`cannot be used: ${(err as Error).message}`, ...path)];
  }
};

const versions: Rule = ({ versions: { talos, kubernetes, contract } }) => {
  const unknown = [
    ...attempt(() => contractOf(talos), "versions", "talos"),
    ...(contract === undefined ? [] : attempt(() => contractOf(contract), "versions", "contract")),
  ];
  if (unknown.length > 0) return unknown;
  const newest = contractOf(talos).name;
  // Older contracts stay valid on newer machines; the names sort as the versions do.
  if (contract !== undefined && contract > newest) {
    return [problem(`is newer than Talos ${talos}, which knows ${newest}`, "versions", "contract")];
  }
  return kubernetes === undefined
    ? []
    : attempt(() => checkKubernetesVersion(newest, kubernetes), "versions", "kubernetes");
};

const quorum: Rule = ({ controlPlane: { count } }) =>
  count % 2 === 1
    ? []
    : [
        problem(
          `is ${count}: an even number of etcd members is lost as easily as one less; use 1, 3 or 5`,
          "controlPlane",
          "count",
        ),
      ];

const oneEndpoint: Rule = ({ endpoint }) => {
  const given = (["vip", "loadBalancer", "dns"] as const).filter((key) => endpoint[key] !== undefined);
  return given.length === 1 ? [] : [problem("needs exactly one of vip, loadBalancer and dns", "endpoint")];
};

const addresses: Rule = ({ network, endpoint, nodes }) => {
  const nodeNetworks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  const isInside = (address: string): boolean => nodeNetworks.some((cidr) => contains(cidr, address));
  const where = nodeNetworks.join(" or ");
  const inside = (address: string | undefined, ...path: readonly string[]): readonly Problem[] =>
    address === undefined || isInside(address)
      ? []
      : [problem(`is outside the machines' network ${where}`, ...path)];
  return [
    ...inside(network.gateway, "network", "gateway"),
    ...inside(endpoint.vip, "endpoint", "vip"),
    ...Object.entries(nodes).flatMap(([name, { ip }]) => inside(ip, "nodes", name, "ip")),
    ...(endpoint.vip !== undefined && endpoint.vip === network.gateway
      ? [problem("is the gateway's address", "endpoint", "vip")]
      : []),
  ];
};

const networks: Rule = ({ network }) => {
  const all = [
    { path: ["network", "nodeCIDR"], cidr: network.nodeCIDR },
    ...(network.nodeCIDR6 === null ? [] : [{ path: ["network", "nodeCIDR6"], cidr: network.nodeCIDR6 }]),
    ...network.podCIDRs.map((cidr, index) => ({ path: ["network", "podCIDRs", index], cidr })),
    ...network.serviceCIDRs.map((cidr, index) => ({ path: ["network", "serviceCIDRs", index], cidr })),
  ];
  return all.flatMap(({ path, cidr }, index) => {
    if (!isNetwork(cidr)) return [{ path, message: "is no network" }];
    const other = all.slice(0, index).find((earlier) => overlap(earlier.cidr, cidr));
    return other === undefined ? [] : [{ path, message: `overlaps ${other.path.join(".")} (${other.cidr})` }];
  });
};

const vmidRanges: Rule = ({ vmids }) => {
  const ranges = (["template", "controlPlane", "worker"] as const).map((key) => {
    const [from = 0, to = 0] = vmids[key].split("-").map(Number);
    return { key, from, to };
  });
  return ranges.flatMap(({ key, from, to }, index) => {
    if (from > to) return [problem("ends before it begins", "vmids", key)];
    const other = ranges.slice(0, index).find((earlier) => earlier.from <= to && from <= earlier.to);
    return other === undefined ? [] : [problem(`overlaps vmids.${other.key}`, "vmids", key)];
  });
};

const names: Rule = ({ metadata, controlPlane, pools, providers, nodes }) => {
  const twice = (list: readonly { readonly name: string }[], key: string): readonly Problem[] =>
    list.flatMap(({ name }, index) =>
      list.findIndex((other) => other.name === name) < index
        ? [problem(`${name} is there twice`, key, index, "name")]
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
      name === "cp" ? [problem("cp is the name of the control planes", "pools", index, "name")] : [],
    ),
    ...Object.keys(nodes)
      .filter((name) => !isMachine(name))
      .map((name) =>
        problem(
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
            ? [problem(`is missing: ${type} is reached over the network`, "providers", index, "endpoint")]
            : []),
          ...(tokenRef === undefined
            ? [problem(`is missing: ${type} asks for a token`, "providers", index, "tokenRef")]
            : []),
        ],
  );

const rules: readonly Rule[] = [
  versions,
  quorum,
  oneEndpoint,
  addresses,
  networks,
  vmidRanges,
  names,
  providerAccess,
];
