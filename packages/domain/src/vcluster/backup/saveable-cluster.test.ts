import { describe, expect, test } from "vitest";
import { readVirtualClusterSpec } from "../vcluster-spec.ts";
import { requireSaveable } from "./saveable-cluster.ts";

const spec = (backingStore: string) =>
  readVirtualClusterSpec({
    controlPlane: {
      backingStore,
      ...(backingStore === "external" ? { externalEtcdEndpoint: "https://192.0.2.1:2379" } : {}),
    },
  });

describe("what backup, restore and upgrade can deal with", () => {
  test("a cluster on one node with a store of ours", () => {
    for (const work of ["backup", "restore", "upgrade"] as const)
      expect(() => requireSaveable(work, { name: "demo", spec: spec("sqlite") })).not.toThrow();
  });

  test.each(["etcd", "external"])("none whose store is %s; it is said why and what to do", (kind) => {
    const cluster = { name: "demo", spec: spec(kind) };
    expect(() => requireSaveable("backup", cluster)).toThrow(
      new RegExp(`'demo' cannot be backed up .*kind ${kind}.*Instead: .*etcdctl snapshot save`),
    );
    expect(() => requireSaveable("restore", cluster)).toThrow(
      new RegExp(`kind ${kind}.*Instead: .*another name`),
    );
    expect(() => requireSaveable("upgrade", cluster)).toThrow(
      new RegExp(`cannot be upgraded .*kind ${kind}.*Instead: make a new one`),
    );
  });

  test("none with workers on several nodes", () => {
    const overlay = { nodes: [{ node: "n1", address: "192.0.2.1" }], at: 0 };
    for (const work of ["backup", "restore", "upgrade"] as const)
      expect(() => requireSaveable(work, { name: "demo", spec: spec("sqlite"), overlay })).toThrow(
        "workers on several nodes",
      );
  });
});
