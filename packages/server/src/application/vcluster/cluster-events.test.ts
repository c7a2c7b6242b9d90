import { describe, expect, test } from "vitest";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { ClusterSteps } from "./cluster-events.ts";

const view = (...rows: [string, VirtualClusterRuntime["phase"], string?][]): NodeView =>
  ({
    node: "n1",
    report: { vclusters: rows.map(([name, phase, message]) => ({ name, phase, power: "hot", message })) },
  }) as unknown as NodeView;

describe("steps in the life of a virtual cluster", () => {
  const steps = () =>
    new ClusterSteps((key) =>
      key === "gone" ? undefined : { name: key.replace(/^0-/, ""), tenant: "shop" },
    );

  test("are told when its node tells another phase than before, with the reason of a failure", () => {
    const seen = steps();
    expect(seen.of(view(["a", "Running"]), 0)).toEqual([]);
    expect(seen.of(view(["a", "Running"]), 1)).toEqual([]);
    expect(seen.of(view(["a", "Failed", "no bridge"]), 61_000)).toEqual([
      {
        event: {
          type: "Warning",
          reason: "VCFailed",
          object: { kind: "VirtualCluster", name: "a", namespace: "shop" },
          node: "n1",
          message: "virtual cluster a is Failed, was Running: no bridge",
        },
        once: { at: 60_000, text: "n1 shop a Failed" },
      },
    ]);
  });

  test("one that is new was Pending; one that is nobody's and a node without a report tell nothing", () => {
    const seen = steps();
    expect(seen.of({ node: "n1" } as NodeView, 0)).toEqual([]);
    expect(seen.of(view(), 0)).toEqual([]);
    const [step, ...others] = seen.of(view(["a", "Running"], ["gone", "Running"], ["b", "Pending"]), 0);
    expect([step?.event.message, others]).toEqual(["virtual cluster a is Running, was Pending", []]);
  });

  test("are those of the tenant's name for it, whatever its key is", () => {
    const seen = steps();
    seen.of(view(), 0);
    const [step] = seen.of(view(["0-a", "Running"]), 0);
    expect(step?.event).toMatchObject({
      object: { name: "a", namespace: "shop" },
      message: "virtual cluster a is Running, was Pending",
    });
  });
});
