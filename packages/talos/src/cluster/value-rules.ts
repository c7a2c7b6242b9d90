// Values that others would refuse later: cron, age, Kubernetes and its API server.
import { AppError } from "@gpve/contracts/errors.ts";
import { isIPv6 } from "node:net";
import { cronFields } from "../backup/snapshot-timer.ts";
import { isRecipient } from "../secrets/age-text.ts";
import { balancerOf, balancerSmbios } from "./balancer.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import { contains, isInRange, isNetwork, prefixLength } from "./networks.ts";
import type { Problem } from "./problem.ts";

export type Rule = (cluster: ClusterFile) => readonly Problem[];

const MAX_NAME = 63;
const NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?";
const DOMAIN = "[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*";
const LABEL_KEY = new RegExp(`^(${DOMAIN}/)?${NAME}$`);
const LABEL_VALUE = new RegExp(`^(${NAME})?$`);
const TAINT = new RegExp(`^((${NAME})?:)?(NoSchedule|PreferNoSchedule|NoExecute)$`);

const schedule: Rule = ({ backup }) => {
  try {
    cronFields(backup.etcd.schedule);
    return [];
  } catch (err) {
    if (!(err instanceof AppError)) throw err;
    const message = err.message.replace(/^backup\.etcd\.schedule "/, 'is "').replace('" is no', '", no');
    return [{ id: "schedule-invalid", path: ["backup", "etcd", "schedule"], message }];
  }
};

const recipients: Rule = ({ secrets }) =>
  secrets.recipients.flatMap((recipient, at) =>
    isRecipient(recipient)
      ? []
      : [
          {
            id: "recipient-wrong",
            path: ["secrets", "recipients", at],
            message: "is no age recipient; they begin with age1",
          },
        ],
  );

const marks: Rule = ({ pools }) =>
  pools.flatMap(({ labels, taints }, at) => {
    const bad = (key: string, kind: "labels" | "taints", message: string): Problem => ({
      id: "label-invalid",
      path: ["pools", at, kind, key],
      message,
    });
    return [
      ...Object.entries(labels).flatMap(([key, value]) => {
        if (!LABEL_KEY.test(key)) return [bad(key, "labels", "is no name of a label")];
        return LABEL_VALUE.test(value) ? [] : [bad(key, "labels", `is no value of a label: ${value}`)];
      }),
      ...Object.entries(taints).flatMap(([key, value]) => {
        if (!LABEL_KEY.test(key)) return [bad(key, "taints", "is no name of a taint")];
        return TAINT.test(value)
          ? []
          : [
              bad(
                key,
                "taints",
                `must be VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute; not ${value}`,
              ),
            ];
      }),
    ];
  });

/** Kubernetes' API server does not start when services have addresses that no machine of it has. */
const families: Rule = ({ network }) => {
  const familyOf = (cidr: string): string => (isIPv6(cidr.split("/")[0] ?? "") ? "IPv6" : "IPv4");
  const first = familyOf(network.nodeCIDR);
  const machines = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  const has = new Set(machines.map(familyOf));
  const problem = (message: string, ...path: readonly (string | number)[]): readonly Problem[] => [
    { id: "network-families", path: ["network", ...path], message },
  ];
  if (network.nodeCIDR6 !== null && (has.size < 2 || familyOf(network.nodeCIDR6) !== "IPv6"))
    return problem(`is ${network.nodeCIDR6}; it is for IPv6 beside a nodeCIDR of IPv4`, "nodeCIDR6");
  return (["podCIDRs", "serviceCIDRs"] as const).flatMap((key) => {
    const cidrs = network[key];
    const own = familyOf(cidrs[0] ?? "");
    if (own !== first)
      return problem(`begins with ${own}, and machines' first addresses are of ${first}`, key, 0);
    const second = cidrs[1];
    if (second === undefined) return [];
    if (familyOf(second) === own) return problem(`has two networks of ${own}`, key, 1);
    return has.has(familyOf(second))
      ? []
      : problem(`is ${second}, and machines have no address of ${familyOf(second)}`, key, 1);
  });
};

/** Of the pods' networks every machine gets a part: so Kubernetes' controller manager is set up. */
const NODE_PART = { IPv4: 24, IPv6: 64 } as const;
/** It does not start with more parts than it can keep a list of. */
const MOST_BITS = 16;

const podNetworks: Rule = ({ network, controlPlane, pools }) => {
  const machines = pools.reduce((sum, { count }) => sum + count, controlPlane.count);
  return network.podCIDRs.flatMap((cidr, at) => {
    if (!isNetwork(cidr)) return [];
    const part = NODE_PART[cidr.includes(":") ? "IPv6" : "IPv4"];
    const bits = part - prefixLength(cidr);
    const told = (message: string): readonly Problem[] => [
      { id: "pod-network-size", path: ["network", "podCIDRs", at], message },
    ];
    if (bits > MOST_BITS) return told(`is ${cidr}, too large; the largest is a /${part - MOST_BITS}`);
    const room = bits < 0 ? 0 : 2 ** bits;
    if (room >= machines) return [];
    return told(
      `is ${cidr}, with a /${part} for each of ${room} machines; the cluster has ${machines}, so use a /${part - Math.ceil(Math.log2(machines))} or larger`,
    );
  });
};

const reserved: Rule = ({ network }) =>
  network.ipam.reserve.flatMap((entry, at) => {
    const [first = "", last] = entry.split("-");
    return last === undefined || isInRange(entry, first)
      ? []
      : [
          {
            id: "value-wrong" as const,
            path: ["network", "ipam", "reserve", at],
            message: `is ${entry}, no range of addresses: the first comes before the last`,
          },
        ];
  });

const extensions: Rule = ({ image, pools }) => {
  const all = [
    { path: ["image", "extensions"], names: image.extensions },
    ...pools.map((pool, at) => ({ path: ["pools", at, "extensions"], names: pool.extensions })),
  ];
  return all.flatMap(({ path, names }) =>
    names.flatMap((name, at) =>
      /^[a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9._-]*$/.test(name)
        ? []
        : [
            {
              id: "value-wrong" as const,
              path: [...path, at],
              message: `is ${name}; extensions are named with their owner: siderolabs/${name.replace(/^.*\//, "")}`,
            },
          ],
    ),
  );
};

/** Machines are called CLUSTER-POOL-NUMBER, and Kubernetes takes so many characters. */
const lengths: Rule = ({ metadata, pools, nodes }) =>
  pools.flatMap(({ name, count }, at) => {
    const names = Array.from({ length: count }, (_none, index) => `${metadata.name}-${name}-${index + 1}`);
    const long = names.find((each) => (nodes[each]?.hostname ?? each).length > MAX_NAME);
    return long === undefined
      ? []
      : [
          {
            id: "name-too-long",
            path: ["pools", at, "name"],
            message: `is too long: ${long} has more than ${MAX_NAME} characters`,
          },
        ];
  });

/** Its machine has a place of its own among the others, and the platform takes what it is told. */
const balancer: Rule = ({ endpoint, network, providers, vmids, nodes, ...rest }) => {
  const { loadBalancer } = endpoint;
  if (loadBalancer?.backendsManaged !== "vm") return [];
  const { address, vm } = loadBalancer;
  const problem = (id: Problem["id"], message: string, ...path: readonly string[]): readonly Problem[] => [
    { id, path: ["endpoint", "loadBalancer", ...path], message },
  ];
  const networks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  const { vmid, host } = vm;
  const isInRange = (range: string): boolean => {
    const [from = 0, to = 0] = range.split("-").map(Number);
    return vmid !== undefined && vmid >= from && vmid <= to;
  };
  const isTaken =
    vmid !== undefined &&
    (isInRange(vmids.controlPlane) ||
      isInRange(vmids.worker) ||
      Object.values(nodes).some((node) => node.vmid === vmid) ||
      Object.values(rest.templates).includes(vmid));
  const known = providers.flatMap((provider) => provider.nodes);
  const longest = Array.from({ length: rest.controlPlane.count }, () => ({
    role: "controlplane" as const,
    addresses: [networks.some((cidr) => cidr.includes(":")) ? "ffff:".repeat(7) + "ffff" : "255.255.255.255"],
  }));
  const made = balancerOf({ endpoint, providers, vmids, metadata: rest.metadata, tags: rest.tags }, longest);
  return [
    ...(networks.some((cidr) => contains(cidr, address))
      ? []
      : problem(
          "address-outside-network",
          `is ${address}; a machine of ours has one of ${networks.join(" or ")}`,
          "address",
        )),
    ...(isTaken
      ? problem("vmid-twice", "is that of another machine, or in the range of machines", "vm", "vmid")
      : []),
    ...(host === undefined || known.includes(host)
      ? []
      : problem("host-unknown", `is no node of a provider; they list ${known.join(", ")}`, "vm", "host")),
    ...(made !== undefined && balancerSmbios(made).length > MAX_SMBIOS
      ? problem("value-wrong", "cannot be told of so many control planes with addresses of IPv6; use vip")
      : []),
  ];
};

const MAX_SMBIOS = 512;

export const valueRules: readonly Rule[] = [
  schedule,
  recipients,
  marks,
  families,
  podNetworks,
  reserved,
  extensions,
  lengths,
  balancer,
];
