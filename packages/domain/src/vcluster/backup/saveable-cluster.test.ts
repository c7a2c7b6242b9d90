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
    expect(["etcd", "sqlite", "external"].map((kind) => isSaveable({ spec: spec(kind) }))).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("what is made of a backup is on one node, with the store that it had, or that of whose place it takes", () => {
    const made = (backingStore: string, replicas = 1) => ({
      controlPlane: { tier: "Enterprise", backingStore, replicas },
    });
    for (const kind of ["sqlite", "etcd"]) {
      const one = made(kind);
      expect(restoredSpec(one)).toBe(one);
    }
    expect(restoredSpec(made("etcd", 3))).toEqual(made("sqlite"));
    expect(restoredSpec(made("etcd", 3), { backingStore: "etcd" })).toEqual(made("etcd"));
    expect(restoredSpec(made("sqlite"), { backingStore: "etcd" })).toEqual(made("etcd"));
    expect(restoredSpec(made("etcd"), { backingStore: "sqlite" })).toEqual(made("sqlite"));
  });

  test("one that was made asleep is made of its backup as any other, with the workers that it got since", () => {
    const sleep = { mode: "cold", afterIdleSeconds: 60 };
    const saved = { workerNodes: { count: 1 }, sleep: { ...sleep, fromStart: true } };
    expect(restoredSpec(saved)).toEqual({ ...saved, sleep });
  });

  test("none whose store is somebody else's is saved", () => {
    expect(() => requireSaveable("backup", { name: "demo", spec: spec("external") })).toThrow(
      /'demo' cannot be backed up .*kind external.*Instead: .*etcdctl snapshot save/,
    );
  });

  test("none whose store is somebody else's is put back or upgraded; it is said why and what to do", () => {
    const cluster = { name: "demo", spec: spec("external") };
    expect(() => requireSaveable("restore", cluster)).toThrow(/kind external.*Instead: .*another name/);
    expect(() => requireSaveable("upgrade", cluster)).toThrow(
      /cannot be upgraded .*kind external.*Instead: make a new one/,
    );
    for (const work of ["restore", "upgrade"] as const)
      expect(() => requireSaveable(work, { name: "demo", spec: spec("etcd") })).not.toThrow();
  });

  test.each(["upgrade", "backup"] as const)("for %s also those whose workers are machines", (work) => {
    const machines = readVirtualClusterSpec({ isolationLevel: "L3", workerNodes: { count: 1 } });
    expect(() => requireSaveable(work, { name: "demo", spec: machines })).not.toThrow();
  });

  test("of workers on several nodes backup, and an upgrade, which servers lead", () => {
    const overlay = { nodes: [{ node: "n1", address: "192.0.2.1" }], at: 0 };
    const cluster = { name: "demo", spec: spec("sqlite"), overlay };
    expect(() => requireSaveable("restore", cluster)).toThrow("workers on several nodes");
    for (const work of ["backup", "upgrade"] as const)
      expect(() => requireSaveable(work, cluster)).not.toThrow();
  });
});
