// The command lines of a control plane: pure, from the cluster and where its files lie.
import { AUDIT_DAYS, AUDIT_FILE_MIB, AUDIT_OLD_FILES } from "./audit-policy.ts";
import type { ControlPlanePart } from "./cluster-part.ts";
import { accountIssuer } from "./kubernetes-limits.ts";
import type { VirtualClusterSpec } from "./vcluster-spec.ts";

export interface ControlPlanePlace {
  /** Where the API server listens. */
  readonly address: string;
  /** A file of the cluster's keys and certificates. */
  readonly pki: (file: string) => string;
  /** Whom it trusts: its authority, or that and the one before; absent: its authority. */
  readonly trust?: string;
  /** A kubeconfig of one of its parts. */
  readonly kubeconfig: (part: string) => string;
  readonly store: StoreAccess;
  /** The rules that nobody in the cluster can take away; undefined = this version of Kubernetes reads none from files. */
  readonly guard?: { readonly config: string; readonly rules: string };
  /** What nobody in the cluster may do, whatever its roles say; undefined = this version of Kubernetes cannot be told. */
  readonly rights?: { readonly config: string; readonly deadEnd: string };
  /** Who else may log in; undefined = nobody. */
  readonly authentication?: string;
  /** What is asked of it is written down there, by this policy; undefined = nowhere. */
  readonly audit?: { readonly policy: string; readonly folder: string };
}

/** How the API server comes in to its store. */
export interface StoreAccess {
  /** URLs. */
  readonly servers: readonly string[];
  /** Files of the cluster's keys; absent: its socket says who it is. */
  readonly keys?: { readonly ca: string; readonly cert: string; readonly key: string };
  /** Above all of its objects, where others have theirs in the same store. */
  readonly prefix?: string;
}

export const API_PORT = 6443;
/** Of several replicas: where each passes workers on to one that serves. */
export const BALANCER_PORT = 6444;

export interface PartCommand {
  readonly args: readonly string[];
  /** Files that it reads. Nothing else of the cluster is there for it. */
  readonly files: readonly string[];
  /** Folders that it writes to. */
  readonly writable?: readonly string[];
}

export function controlPlaneCommand(
  part: ControlPlanePart,
  spec: Pick<VirtualClusterSpec, "serviceCidr" | "podCidr" | "dnsDomain" | "replicas">,
  place: ControlPlanePlace,
): PartCommand {
  if (part === "kube-apiserver") return apiServer(spec, place);
  return part === "kube-scheduler" ? scheduler(spec, place) : controllers(spec, place);
}

function apiServer(
  { serviceCidr, dnsDomain }: Pick<VirtualClusterSpec, "serviceCidr" | "dnsDomain">,
  { address, pki, trust = pki("ca.crt"), store, guard, rights, authentication, audit }: ControlPlanePlace,
): PartCommand {
  const files: string[] = [trust];
  const file = (name: string): string => {
    const path = pki(name);
    if (!files.includes(path)) files.push(path);
    return path;
  };
  const args = [
    `--etcd-servers=${store.servers.join(",")}`,
    ...(store.keys === undefined
      ? []
      : [
          `--etcd-cafile=${file(store.keys.ca)}`,
          `--etcd-certfile=${file(store.keys.cert)}`,
          `--etcd-keyfile=${file(store.keys.key)}`,
        ]),
    ...(store.prefix === undefined ? [] : [`--etcd-prefix=${store.prefix}`]),
    `--bind-address=${address}`,
    `--secure-port=${API_PORT}`,
    `--advertise-address=${address}`,
    `--service-cluster-ip-range=${serviceCidr}`,
    `--tls-cert-file=${file("apiserver.crt")}`,
    `--tls-private-key-file=${file("apiserver.key")}`,
    `--client-ca-file=${trust}`,
    `--kubelet-client-certificate=${file("apiserver-kubelet-client.crt")}`,
    `--kubelet-client-key=${file("apiserver-kubelet-client.key")}`,
    `--kubelet-certificate-authority=${trust}`,
    // Names of workers are in no DNS.
    "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
    `--service-account-issuer=${accountIssuer(dnsDomain)}`,
    `--service-account-key-file=${file("sa.pub")}`,
    `--service-account-signing-key-file=${file("sa.key")}`,
    `--requestheader-client-ca-file=${file("front-proxy-ca.crt")}`,
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    `--proxy-client-cert-file=${file("front-proxy-client.crt")}`,
    `--proxy-client-key-file=${file("front-proxy-client.key")}`,
    `--encryption-provider-config=${file("encryption.json")}`,
    rights === undefined ? "--authorization-mode=Node,RBAC" : `--authorization-config=${rights.config}`,
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged=true",
    // It is not where Services are: webhooks and other API servers are reached at their pods.
    "--enable-aggregator-routing=true",
    "--profiling=false",
  ];
  if (rights !== undefined) files.push(rights.config, rights.deadEnd);
  if (authentication !== undefined) {
    args.push(`--authentication-config=${authentication}`);
    files.push(authentication);
  }
  if (audit !== undefined) {
    args.push(...auditArgs(audit));
    files.push(audit.policy);
  }
  const writable = audit === undefined ? [] : [audit.folder];
  if (guard === undefined) return { args, files, writable };
  return {
    args: [
      ...args,
      "--feature-gates=ManifestBasedAdmissionControlConfig=true",
      `--admission-control-config-file=${guard.config}`,
    ],
    files: [...files, guard.config, guard.rules],
    writable,
  };
}

/** Rotated by the API server itself: what it takes of the disk has an end. */
function auditArgs({ policy, folder }: NonNullable<ControlPlanePlace["audit"]>): readonly string[] {
  return [
    `--audit-policy-file=${policy}`,
    `--audit-log-path=${folder}/audit.log`,
    `--audit-log-maxsize=${AUDIT_FILE_MIB}`,
    `--audit-log-maxbackup=${AUDIT_OLD_FILES}`,
    `--audit-log-maxage=${AUDIT_DAYS}`,
    // Nobody waits for the disk; what a crash takes away is what was written last.
    "--audit-log-mode=batch",
  ];
}

function controllers(
  { serviceCidr, podCidr, replicas }: Pick<VirtualClusterSpec, "serviceCidr" | "podCidr" | "replicas">,
  { pki, trust = pki("ca.crt"), kubeconfig }: ControlPlanePlace,
): PartCommand {
  const config = kubeconfig("controller-manager");
  const [ca, caKey, accountKey] = [pki("ca.crt"), pki("ca.key"), pki("sa.key")];
  return {
    args: [
      ...allConfigs(config),
      `--service-account-private-key-file=${accountKey}`,
      `--root-ca-file=${trust}`,
      `--cluster-signing-cert-file=${ca}`,
      `--cluster-signing-key-file=${caKey}`,
      "--use-service-account-credentials=true",
      "--controllers=*,bootstrapsigner,tokencleaner",
      "--allocate-node-cidrs=true",
      `--cluster-cidr=${podCidr}`,
      `--service-cluster-ip-range=${serviceCidr}`,
      ...elects(replicas),
    ],
    files: [...new Set([config, ca, trust, caKey, accountKey])],
  };
}

function scheduler(
  { replicas }: Pick<VirtualClusterSpec, "replicas">,
  { kubeconfig }: ControlPlanePlace,
): PartCommand {
  const config = kubeconfig("scheduler");
  return { args: [...allConfigs(config), ...elects(replicas)], files: [config] };
}

/** One replica elects nobody: after a sleep it would wait for its own old lease. */
function elects(replicas: number): readonly string[] {
  return [`--leader-elect=${replicas > 1}`, "--secure-port=0", "--profiling=false"];
}

function allConfigs(config: string): readonly string[] {
  return [
    `--kubeconfig=${config}`,
    `--authentication-kubeconfig=${config}`,
    `--authorization-kubeconfig=${config}`,
  ];
}
