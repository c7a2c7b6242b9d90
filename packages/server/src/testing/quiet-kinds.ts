// What kinds of /api/v1 ask of the rest of a server, for tests that are not about it: nobody has said anything yet.
import type { VirtualMachineDeps } from "../application/v1/adapters/virtual-machine.ts";
import type { createKindAdapters } from "../application/v1/kind-adapters.ts";

const unknownPhases: VirtualMachineDeps["phases"] = {
  of: () => ({ phase: "Unknown", since: 0, last: undefined }),
  onStep: () => () => undefined,
};

export const quietKinds: Pick<
  Parameters<typeof createKindAdapters>[0],
  "phases" | "quotaUsage" | "running" | "defaultsOf" | "rebalancer"
> = {
  phases: unknownPhases,
  quotaUsage: () => ({ limits: {}, requests: {} }),
  running: () => undefined,
  defaultsOf: () => ({}),
  rebalancer: {
    plan: () => {
      throw new Error("nothing is planned here");
    },
  },
};
