// Which certificates a control plane has, and for whom. All keys are EC P-256.
import { addressAt, readCidr } from "./cidr.ts";

export type Authority = "ca" | "front-proxy-ca" | "etcd-ca";

export interface ClusterCertificate {
  /** Name of its files. */
  readonly name: string;
  readonly by: Authority;
  readonly commonName: string;
  readonly organisation?: string;
  readonly usage: "server" | "client" | "both";
  /** Host names and addresses. */
  readonly names?: readonly string[];
}

export interface ControlPlaneAddresses {
  readonly serviceCidr: string;
  readonly dnsDomain: string;
  /** Where the API server listens. */
  readonly address: string;
  /** By what else clients reach it: names and addresses of the node. */
  readonly alsoKnownAs: readonly string[];
}

/** Of Service `kubernetes`. */
export function firstServiceAddress(serviceCidr: string): string {
  return addressOf(serviceCidr, 1);
}

export function dnsServiceAddress(serviceCidr: string): string {
  return addressOf(serviceCidr, 10);
}

export function controlPlaneCertificates(at: ControlPlaneAddresses): readonly ClusterCertificate[] {
  const { serviceCidr, dnsDomain, address, alsoKnownAs } = at;
  return [
    {
      name: "apiserver",
      by: "ca",
      commonName: "kube-apiserver",
      usage: "server",
      names: [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        `kubernetes.default.svc.${dnsDomain}`,
        "localhost",
        "127.0.0.1",
        firstServiceAddress(serviceCidr),
        address,
        ...alsoKnownAs,
      ],
    },
    {
      name: "apiserver-kubelet-client",
      by: "ca",
      commonName: "kube-apiserver-kubelet-client",
      usage: "client",
    },
    { name: "front-proxy-client", by: "front-proxy-ca", commonName: "front-proxy-client", usage: "client" },
    {
      name: "controller-manager",
      by: "ca",
      commonName: "system:kube-controller-manager",
      usage: "client",
    },
    { name: "scheduler", by: "ca", commonName: "system:kube-scheduler", usage: "client" },
  ];
}

function addressOf(cidr: string, offset: number): string {
  const network = readCidr(cidr);
  return network === undefined ? "" : addressAt(network, offset);
}
