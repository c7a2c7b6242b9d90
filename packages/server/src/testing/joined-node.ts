import type { NodeRecord } from "@gpve/domain/node/record.ts";

/** As a server keeps a node that has joined. */
export const joinedNode = (name: string, more: Partial<NodeRecord> = {}): NodeRecord => ({
  name,
  nodeid: 1,
  address: "192.0.2.1",
  port: 8006,
  certFingerprint: "AA",
  joinedAt: 0,
  labels: {},
  taints: [],
  ...more,
});
