// A cluster as another tool describes it: what could be read of it, and what could not be taken over.

export interface ImportedMachine {
  readonly hostname: string;
  readonly isControlPlane: boolean;
  readonly address?: string | undefined;
  readonly mac?: string | undefined;
  readonly vmid?: number | undefined;
  readonly host?: string | undefined;
  readonly cores?: number | undefined;
  readonly memoryMiB?: number | undefined;
  readonly diskGiB?: number | undefined;
  readonly extraDisks?: readonly { readonly gib: number; readonly storage: string }[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly taints?: Readonly<Record<string, string>> | undefined;
  /** All that it has; those of the cluster are among them. */
  readonly extensions?: readonly string[] | undefined;
  readonly patches?: readonly string[] | undefined;
}

interface ByRole<T> {
  readonly controlPlane?: T | undefined;
  readonly worker?: T | undefined;
}

interface ImportedTemplates extends ByRole<number> {
  readonly nodes: readonly string[];
}

export interface ImportedCluster {
  readonly name?: string | undefined;
  readonly talos?: string | undefined;
  readonly kubernetes?: string | undefined;
  readonly vip?: string | undefined;
  /** Host of the Kubernetes API, when it is not the VIP. */
  readonly endpointHost?: string | undefined;
  readonly port?: number | undefined;
  readonly extraSANs?: readonly string[] | undefined;
  readonly nodeCIDR?: string | undefined;
  readonly nodeCIDR6?: string | undefined;
  readonly gateway?: string | undefined;
  /** Machines ask for their addresses. */
  readonly asksForAddresses?: boolean | undefined;
  readonly dns?: readonly string[] | undefined;
  readonly bridge?: string | undefined;
  readonly vlan?: number | undefined;
  readonly mtu?: number | undefined;
  readonly podCIDRs?: readonly string[] | undefined;
  readonly serviceCIDRs?: readonly string[] | undefined;
  readonly dnsDomain?: string | undefined;
  readonly cni?: string | undefined;
  readonly schedulable?: boolean | undefined;
  readonly extensions?: readonly string[] | undefined;
  /** The Image Factory's URL. */
  readonly factory?: string | undefined;
  readonly kernelArgs?: readonly string[] | undefined;
  readonly apiEndpoint?: string | undefined;
  readonly storage?: string | undefined;
  readonly imageStorage?: string | undefined;
  readonly cloudInitStorage?: string | undefined;
  /** Nodes of the platform beside those that machines name. */
  readonly hosts?: readonly string[] | undefined;
  readonly templates?: ImportedTemplates | undefined;
  /** "2000-2999" */
  readonly vmids?: ByRole<string> | undefined;
  /** Of the first machine's address in the network. */
  readonly offsets?: ByRole<number> | undefined;
  readonly hasCloudController?: boolean | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly workerTags?: readonly string[] | undefined;
  readonly patches?: readonly string[] | undefined;
  readonly controlPlanePatches?: readonly string[] | undefined;
  readonly workerPatches?: readonly string[] | undefined;
  readonly machines: readonly ImportedMachine[];
  /** Patches that stood in the file itself, by the names they get. */
  readonly patchFiles: ReadonlyMap<string, string>;
  /** What a person has to look at. */
  readonly notes: readonly string[];
}

export type Tree = { readonly [key: string]: unknown };

export const isTree = (value: unknown): value is Tree =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const treeAt = (value: unknown, ...keys: readonly (string | number)[]): unknown =>
  keys.reduce<unknown>((at, key) => {
    if (Array.isArray(at)) return (at as unknown[])[Number(key)];
    return isTree(at) ? at[key] : undefined;
  }, value);
export const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? (value as unknown[]) : [];
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;
export const textsOf = (value: unknown): readonly string[] =>
  listOf(value).flatMap((item) => textOf(item) ?? []);
/** Zero is what tools write for "not set". */
export const numberOf = (value: unknown): number | undefined => {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number > 0 ? number : undefined;
};
/** A map of texts; numbers and truth values are written as such. */
export const textMapOf = (value: unknown): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(isTree(value) ? value : {}).map(([key, text]) => [key, String(text)] as const),
  );
/** Lower-case letters, digits and dashes, as names of machines and of files are. */
export const labelOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
/** Talos makes a domain of what follows the first dot, and Kubernetes' name of the node is what is before. */
export const hostnameOf = (text: string): string => labelOf(text.split(".")[0] ?? "");
/** What stands before an address in a URL and behind it, where that is of IPv6. */
export const hostOf = (url: URL | null): string | undefined => url?.hostname.replaceAll(/^\[|\]$/g, "");
/** The parser leaves out the one that https has by itself. */
export const portOf = (url: URL): number => (url.port === "" ? 443 : Number(url.port));
