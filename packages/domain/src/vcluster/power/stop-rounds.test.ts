import { expect, test } from "vitest";
import { CONTROL_PLANE_PARTS } from "../cluster-part.ts";
import { partsOf } from "../etcd.ts";
import { stopRounds, workerOf } from "./stop-rounds.ts";
import { VNODE_PARTS } from "../vnode/vnode.ts";

test("kubelets end first, then what else workers have, control planes, stores, and what all share", () => {
  const parts = partsOf({ spec: { backingStore: "etcd" } });
  const ids = ["proxy", "store"]
    .concat(parts.map((part) => `demo.${part}`))
    .concat(VNODE_PARTS.map((part) => `demo.w1-${part}`))
    .concat("demo.w2-machine");
  expect(stopRounds(ids)).toEqual([
    ["demo.w1-kubelet"],
    expect.arrayContaining(["demo.w1-containerd", "demo.w1-kube-proxy", "demo.w2-machine"]),
    expect.arrayContaining(["demo.kube-controller-manager", "demo.kube-scheduler"]),
    ["demo.kube-apiserver"],
    ["demo.etcd"],
    ["proxy", "store"],
  ]);
  expect(stopRounds(ids).flat().toSorted()).toEqual(ids.toSorted());
});

test("several clusters end side by side", () => {
  const ids = ["a", "b"].flatMap((name) => CONTROL_PLANE_PARTS.map((part) => `${name}.${part}`));
  expect(stopRounds(ids).at(-1)).toEqual(["a.kube-apiserver", "b.kube-apiserver"]);
});

test("a process tells its worker by its name, and those of control planes have none", () => {
  expect(workerOf("demo.w12-kubelet")).toBe("demo.w12");
  expect(workerOf("demo.kube-apiserver")).toBeUndefined();
  expect(workerOf("store")).toBeUndefined();
});
