import { expect, test } from "vitest";
import { hugepageNeeds } from "./hugepage-needs.ts";
import { sampleHost } from "../testing/sample-host.ts";

const needs = (values: Record<string, string>) => hugepageNeeds(values, sampleHost());

test("a guest without huge pages needs none", () => {
  expect(needs({ numa: "1" })).toEqual([]);
  expect(needs({ hugepages: "2" })).toEqual([]);
});

test("memory is spread over as many nodes as there are sockets, or over the nodes that are named", () => {
  expect(needs({ numa: "1", hugepages: "any", memory: "3072", sockets: "2" })).toEqual([
    { sizeMiB: 2, node: 0, count: 768 },
    { sizeMiB: 2, node: 1, count: 768 },
  ]);
  const named = {
    numa0: "cpus=0,memory=1024,hostnodes=3,policy=bind",
    numa1: "cpus=1,memory=2,hostnodes=3,policy=bind",
  };
  expect(needs({ numa: "1", hugepages: "any", memory: "1026", ...named })).toEqual([
    { sizeMiB: 1024, node: 3, count: 1 },
    { sizeMiB: 2, node: 3, count: 1 },
  ]);
});

test("modules come on top of what a guest always has", () => {
  const config = { numa: "1", hugepages: "1024", hotplug: "memory", memory: "4096", sockets: "2" };
  expect(needs(config)).toEqual([
    { sizeMiB: 1024, node: 0, count: 2 },
    { sizeMiB: 1024, node: 1, count: 2 },
  ]);
});

test("a guest's node is on one node of the host", () => {
  const config = {
    numa: "1",
    hugepages: "2",
    memory: "64",
    numa0: "cpus=0,memory=64,hostnodes=0-1,policy=bind",
  };
  expect(() => needs(config)).toThrow(
    "more than 1 hostnode value in numa node is not supported when hugepages are enabled",
  );
});
