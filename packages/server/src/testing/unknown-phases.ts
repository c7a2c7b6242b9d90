import type { VirtualMachineDeps } from "../application/v1/adapters/virtual-machine.ts";

/** For tests that are not about phases: nobody has said anything yet. */
export const unknownPhases: VirtualMachineDeps["phases"] = {
  of: () => ({ phase: "Unknown", since: 0, last: undefined }),
  onStep: () => () => undefined,
};
