// Ways to break what keeps a Talos cluster alive.
import type { Mutation } from "./mutation.ts";

const DECIDE = "packages/talos/src/engine/decide";
const decided = { tests: [`${DECIDE}/decide.test.ts`] } as const;

export const talosMutations: readonly Mutation[] = [
  {
    name: "etcd is begun again where it was begun before",
    file: `${DECIDE}/decide-beginning.ts`,
    find: "if (beginning !== undefined && beginning.doneAt !== null) {",
    replace: "if (beginning !== undefined && beginning.machine === '') {",
    ...decided,
  },
  {
    name: "etcd is begun though a machine may have its data",
    file: `${DECIDE}/decide-beginning.ts`,
    find: "if (unsure.length > 0) return",
    replace: "if (unsure.length > 99) return",
    ...decided,
  },
  {
    name: "a control plane goes away though etcd cannot spare it",
    file: `${DECIDE}/decide-disruption.ts`,
    find: "if (reason !== undefined) return",
    replace: "if (reason === null) return",
    ...decided,
  },
  {
    name: "a control plane goes away without a fresh snapshot",
    file: `${DECIDE}/decide-disruption.ts`,
    find: "    if (snapshot !== undefined) return snapshot;\n",
    replace: "",
    ...decided,
  },
  {
    name: "a machine goes before the image that it is made from anew was taken",
    file: `${DECIDE}/decide-guests.ts`,
    find: "          ...leaving,\n",
    replace: "",
    tests: ["packages/talos/src/engine/fetched-image.test.ts"],
  },
  {
    name: "an image that the platform fetches is held to nothing",
    file: "packages/talos/src/image/image-source.ts",
    find: "    pin(name, found);\n",
    replace: "",
    tests: ["packages/talos/src/engine/fetched-image.test.ts"],
  },
  {
    name: "more of a pool go away than it allows",
    file: `${DECIDE}/decide-wave.ts`,
    find: "Math.max(0, room - away.size)",
    replace: "room",
    ...decided,
  },
  {
    name: "a load balancer is deleted that is somebody else's by then",
    file: "packages/talos/src/engine/refuse-others.ts",
    find: "uuidOf(config) === uuid && wanted",
    replace: "uuid !== '' && wanted",
    tests: ["packages/talos/src/engine/balancer.test.ts"],
  },
  {
    name: "a machine is deleted that is somebody else's by then",
    file: "packages/talos/src/engine/refuse-others.ts",
    find: "if (tagsOf(config).includes(clusterTag(cluster)) && isItself) return;",
    replace: "if (isItself || name !== clusterTag(cluster)) return;",
    tests: ["packages/talos/src/engine/balancer.test.ts"],
  },
];
