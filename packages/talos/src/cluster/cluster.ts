// cluster.yaml once it has been read: checked, defaults filled in.
import type { ContractName } from "../contract/contracts.ts";
import type { ClusterFile } from "./cluster-schema.ts";

export interface Cluster extends ClusterFile {
  readonly versions: { readonly talos: string; readonly kubernetes: string; readonly contract: ContractName };
}
