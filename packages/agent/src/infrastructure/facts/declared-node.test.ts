import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { expect, test, vi } from "vitest";
import { heardLog } from "../../testing/heard-log.ts";
import { declaredNode } from "./declared-node.ts";

function world(accelerator: "kvm" | "tcg") {
  const facts = { accelerator, capabilities: [] } as unknown as NodeFacts;
  const { log, lines } = heardLog();
  const exec = vi.fn().mockRejectedValue(new Error("no such program"));
  const keeper = { facts: () => ({ facts, generation: 1 }), guestsTried: async () => undefined };
  return { deps: { facts: keeper, exec, log }, lines, facts };
}

test("a node that declares nothing reports what it is", async () => {
  const { deps, facts, lines } = world("kvm");
  const node = await declaredNode({ defaults: { cpu: "host" }, storages: [] }, deps);
  expect(node.facts().facts).toBe(facts);
  expect(node.report).toEqual({});
  expect(node.defaults()).toEqual({ cpu: "host" });
  expect(lines).toEqual([]);
});

test("what cannot be had is left out and said; bridges and storages are told with the rest", async () => {
  const { deps, lines } = world("tcg");
  const storages = [newStorageDefinition("local", "dir", { path: "/x", content: "images" })];
  const bridges = [{ name: "br0", vlanAware: false, ports: [] }];
  const node = await declaredNode({ defaults: { cpu: "host" }, storages, bridges }, deps);
  expect(node.defaults()).toEqual({});
  expect(node.report).toEqual({ declaredStorages: storages });
  expect(node.facts().facts.capabilities).toMatchObject([{ name: "bridge br0", available: false }]);
  await vi.waitFor(() => expect(lines.join("\n")).toContain("qemu.defaultCPU needs KVM"), 30_000);
});
