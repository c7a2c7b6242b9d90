// Wires the cluster's mappings into a server: kept in the store, checked by the node they are about.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { claimedBy, hostPaths } from "@gpve/domain/storage/protected-paths.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { Mappings } from "./application/mapping/mappings.ts";
import type { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { createMappingHandlers } from "./presentation/http/mapping/mapping-handlers.ts";

export function composeMappings(parts: {
  readonly records: Records;
  readonly calls: NodeCalls;
  readonly localNode: string;
  readonly dataDir: string;
  readonly storages: StorageDefinitions;
}): PveHandlers {
  const { records, calls, localNode, storages } = parts;
  const mappings = new Mappings({
    records,
    localNode,
    claimed: () => [...hostPaths(parts.dataDir), ...storages.definitions().flatMap(claimedBy)],
    check: async (node, type, all, ctx, options = {}) => {
      const mappings = all.map(({ id, map }) => ({ id, map: [...map] }));
      const params = { type, mappings, ...options };
      const { data } = await calls.call(node, "POST /gpve/nodes/{node}/mapping-checks", params, ctx);
      return data;
    },
  });
  return createMappingHandlers({ mappings });
}
