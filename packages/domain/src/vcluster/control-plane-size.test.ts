import { expect, test } from "vitest";
import { controlPlaneSizeOf, partBounds, readControlPlaneSize } from "./control-plane-size.ts";
import { CONTROL_PLANE_PARTS } from "./cluster-part.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "./vcluster-spec.ts";
import { TIERS } from "./tier.ts";

const GIB = 2 ** 30;

test("is what its tier has, unless it is said; half of it may be said", () => {
  expect(TIERS.map((tier) => controlPlaneSizeOf({ tier }).memoryBytes / GIB)).toEqual([2, 4, 8, 16]);
  expect(readControlPlaneSize(undefined, "Starter")).toBeUndefined();
  expect(readControlPlaneSize({ cpu: "500m" }, "Standard")).toEqual({ cpus: 0.5, memoryBytes: 4 * GIB });
  expect(readControlPlaneSize({ memory: "3Gi" }, "Starter")).toEqual({ cpus: 2, memoryBytes: 3 * GIB });
  // What the tier has, said: the same as not said.
  expect(readControlPlaneSize({ cpu: 2, memory: "2Gi" }, "Starter")).toBeUndefined();
});

test.each([
  [{ cpu: "100m" }, "at least 500m"],
  [{ cpu: "many" }, "must be CPUs"],
  [{ memory: "512Mi" }, "at least 1Gi"],
  [{ memory: "lots" }, "must be bytes"],
])("%j is refused", (resources, why) => {
  expect(() => readVirtualClusterSpec({ controlPlane: { resources } })).toThrow(why);
});

test("is shown as it was said, and as the tier has it where it was not", () => {
  const shown = (controlPlane: object) => shownVirtualClusterSpec(readVirtualClusterSpec({ controlPlane }));
  expect(shown({})).toMatchObject({ controlPlane: { resources: { cpu: "2", memory: "2Gi" } } });
  const said = { tier: "standard", resources: { cpu: "6", memory: "5Gi" } };
  expect(shown(said)).toMatchObject({ controlPlane: { resources: { cpu: "6", memory: "5Gi" } } });
});

test("parts have all of the memory together and no more, whichever there are", () => {
  const size = { cpus: 2, memoryBytes: 2 * GIB };
  for (const parts of [CONTROL_PLANE_PARTS, ["etcd", ...CONTROL_PLANE_PARTS]] as const) {
    const bytes = parts.map((part) => partBounds(part, parts, size).memoryBytes);
    const sum = bytes.reduce((all, each) => all + each, 0);
    expect(sum).toBeLessThanOrEqual(size.memoryBytes);
    expect(sum).toBeGreaterThan(size.memoryBytes - parts.length);
    // An idle API server takes 267 MiB.
    expect(partBounds("kube-apiserver", parts, { ...size, memoryBytes: GIB }).memoryBytes).toBeGreaterThan(
      400 * 2 ** 20,
    );
  }
  expect(partBounds("api-balancer", ["api-balancer", "etcd", ...CONTROL_PLANE_PARTS], size).memoryBytes).toBe(
    256 * 2 ** 20,
  );
});
