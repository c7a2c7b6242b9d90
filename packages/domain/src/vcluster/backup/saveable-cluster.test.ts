import { describe, expect, test } from "vitest";
import { readVirtualClusterSpec } from "../vcluster-spec.ts";
import { isSaveable, requireSaveable, restoredSpec } from "./saveable-cluster.ts";

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

  test("an etcd of its own is read while it runs, also one of several replicas", () => {
    const nodes = [{ node: "n1", address: "192.0.2.1", slot: 0 }];
    const cluster = { name: "demo", spec: spec("etcd"), overlay: { nodes, at: 0 } };
    expect(() => requireSaveable("backup", { ...cluster, phase: "Running" })).not.toThrow();
    expect(() => requireSaveable("backup", { ...cluster, phase: "Stopped" })).toThrow("while it is Running");
    expect(isSaveable({ spec: spec("etcd"), spread: { nodes, network: 2048 } })).toBe(true);
    expect(isSaveable({ spec: spec("sqlite"), spread: { nodes: [], network: 2048 } })).toBe(false);
    expect(isSaveable({ spec: spec("external") })).toBe(false);
  });

  test("what is made of a backup has a database on one node", () => {
    const sqlite = { controlPlane: { tier: "Standard", backingStore: "sqlite", replicas: 1 } };
    expect(restoredSpec(sqlite)).toBe(sqlite);
    expect(restoredSpec({ controlPlane: { tier: "Enterprise", backingStore: "etcd", replicas: 3 } })).toEqual(
      {
        controlPlane: { tier: "Enterprise", backingStore: "sqlite", replicas: 1 },
      },
    );
  });

  test("none whose store is somebody else's is saved", () => {
    expect(() => requireSaveable("backup", { name: "demo", spec: spec("external") })).toThrow(
      /'demo' cannot be backed up .*kind external.*Instead: .*etcdctl snapshot save/,
    );
  });

  test.each(["etcd", "external"])(
    "none whose store is %s is put back; it is said why and what to do",
    (kind) => {
      const cluster = { name: "demo", spec: spec(kind) };
      expect(() => requireSaveable("restore", cluster)).toThrow(
        new RegExp(`kind ${kind}.*Instead: .*another name`),
      );
      if (kind === "external")
        expect(() => requireSaveable("upgrade", cluster)).toThrow(
          new RegExp(`cannot be upgraded .*kind ${kind}.*Instead: make a new one`),
        );
      else expect(() => requireSaveable("upgrade", cluster)).not.toThrow();
    },
  );

  test("machines are not exchanged by an upgrade; saved they are, and without them it goes", () => {
    const machines = (count: number) =>
      readVirtualClusterSpec({ isolationLevel: "L3", workerNodes: { count } });
    expect(() => requireSaveable("upgrade", { name: "demo", spec: machines(1) })).toThrow(
      /machines \(level L3\).*vc scale demo --workers 0/,
    );
    expect(() => requireSaveable("upgrade", { name: "demo", spec: machines(0) })).not.toThrow();
    expect(() => requireSaveable("backup", { name: "demo", spec: machines(1) })).not.toThrow();
  });

  test("of workers on several nodes an upgrade, which servers lead", () => {
    const overlay = { nodes: [{ node: "n1", address: "192.0.2.1" }], at: 0 };
    for (const work of ["backup", "restore"] as const)
      expect(() => requireSaveable(work, { name: "demo", spec: spec("sqlite"), overlay })).toThrow(
        "workers on several nodes",
      );
    expect(() => requireSaveable("upgrade", { name: "demo", spec: spec("sqlite"), overlay })).not.toThrow();
  });
});
