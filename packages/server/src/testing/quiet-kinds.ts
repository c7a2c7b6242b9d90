// What kinds of /api/v1 ask of the rest of a server, for tests that are not about it: nobody has said anything yet,
// and nothing may be done.
import type { createKindAdapters } from "../application/v1/kind-adapters.ts";

const refuse = (): never => {
  throw new Error("nothing is done here");
};

/** Where nobody asks the scheduler: whatever is made names its node. */
export const noPlaces = { run: refuse, keep: refuse, preview: refuse, settle: refuse };
export const noExplanations = { guest: refuse, place: refuse, nodeLoss: refuse };
export const noStories = { story: refuse };

export const quietKinds: Omit<Parameters<typeof createKindAdapters>[0], "board" | "ownNode"> = {
  phases: { of: () => ({ phase: "Unknown", since: 0, last: undefined }), onStep: () => () => undefined },
  conditionTimes: { since: () => 0 },
  quotaUsage: () => ({ limits: {}, requests: {} }),
  running: () => undefined,
  defaultsOf: () => ({}),
  rebalancer: { plan: refuse },
  storageWork: { create: refuse, update: refuse, remove: refuse, digest: () => "" },
  vclusters: {
    create: refuse,
    remove: refuse,
    ready: refuse,
    setSleep: refuse,
    setQuota: refuse,
    setExposure: refuse,
    scale: refuse,
  },
  vmActions: {
    callNode: refuse,
    withdraw: async () => undefined,
    taskEnd: async () => undefined,
    reported: async () => undefined,
    placement: { guests: noPlaces, rules: { set: refuse } },
  },
};

/** For what is watched after it was answered: nobody reads of it, and it has time. */
export const quietWatch = { log: { info() {}, error() {} }, shutdown: new AbortController().signal };
