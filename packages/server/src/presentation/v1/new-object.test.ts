import { expect, test } from "vitest";
import { virtualClusterKind as kind } from "@gpve/contracts/v1/kinds/virtual-cluster.ts";
import { virtualMachineKind } from "@gpve/contracts/v1/kinds/virtual-machine.ts";
import { wholeObject } from "./new-object.ts";

const words = { apiVersion: "gpve.io/v1", kind: "VirtualCluster" };
const spec = { kubernetesVersion: "1.36", controlPlane: { tier: "STARTER" } };

test.each([
  ["flat", { name: "demo", ...spec }],
  ["flat, with the words of a whole one", { ...words, name: "demo", ...spec }],
  ["its name beside its spec", { name: "demo", spec }],
  ["without the words that the path says", { metadata: { name: "demo" }, spec }],
  ["whole", { ...words, metadata: { name: "demo" }, spec }],
])("a new cluster is said %s", (_how, body) => {
  expect(wholeObject({ kind, verb: "create" }, "shop", body)).toEqual({
    ...words,
    metadata: { name: "demo" },
    spec,
  });
});

test("a new one without a tenant is of the default one, and of its path's where that says one", () => {
  const made = (tenant: string | undefined) =>
    wholeObject({ kind, verb: "create" }, tenant, { name: "demo" });
  expect(made(undefined)).toMatchObject({ metadata: { name: "demo", namespace: "default" } });
  expect(made("shop")).toMatchObject({ metadata: { name: "demo" } });
});

test("a change of a cluster is said flat too; of other kinds it is as it was sent", () => {
  const change = (body: unknown) => wholeObject({ kind, verb: "patch" }, undefined, body);
  const workerNodes = { count: 3 };
  expect(change({ workerNodes })).toEqual({ spec: { workerNodes } });
  for (const body of [{ spec: { workerNodes } }, { metadata: { labels: {} } }, [], undefined])
    expect(change(body)).toEqual(body);
  const other = { kind: virtualMachineKind, verb: "patch" } as const;
  expect(wholeObject(other, undefined, { workerNodes })).toEqual({ workerNodes });
});
