// The cluster's mappings, as far as they are about this node.
import type { MappingHost } from "@gpve/domain/mapping/check-mapping.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  mappingCollection,
  mappingsOn,
  type Mapping,
  type MappingsOfNode,
} from "@gpve/domain/mapping/mapping.ts";
import type { HostMappings } from "@gpve/domain/vm/host/host-mappings.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { changedHardware } from "./check-mappings.ts";

export interface NodeMappingsDeps {
  readonly node: string;
  readonly records: () => Records;
  readonly host: MappingHost;
  readonly requireDirectory: (subject: string, path: string) => Promise<void>;
}

export class NodeMappings implements HostMappings {
  readonly #deps: NodeMappingsDeps;
  readonly requireDirectory: HostMappings["requireDirectory"];

  constructor(deps: NodeMappingsDeps) {
    this.#deps = deps;
    this.requireDirectory = deps.requireDirectory;
  }

  here(): MappingsOfNode {
    return mappingsOn(this.#all(), this.#deps.node);
  }

  directories(): ReadonlyMap<string, string> {
    return this.here().directories;
  }

  changedHardware(type: "pci" | "usb", id: string): string | undefined {
    return changedHardware(this.#all(), this.#deps.node, { type, id }, this.#deps.host);
  }

  /** Addresses of a PCI mapping; undefined = no such mapping. */
  pciPaths(id: string): readonly string[] | undefined {
    const all = this.here().pciMappings;
    return Object.hasOwn(all, id) ? all[id]?.paths : undefined;
  }

  #all(): readonly Mapping[] {
    const { records } = this.#deps;
    return valuesOf(records(), mappingCollection);
  }
}
