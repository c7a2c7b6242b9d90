// What the cluster's mappings name on this node.

export interface HostMappings {
  /** Directories by the mapping that names them. */
  directories(): ReadonlyMap<string, string>;
  /** Throws when a directory of the host is, holds or lies in what no guest may have. */
  requireDirectory(subject: string, path: string): Promise<void>;
  /** Why a mapping must not be used: its hardware is another one by now. */
  changedHardware(type: "pci" | "usb", mapping: string): string | undefined;
}
