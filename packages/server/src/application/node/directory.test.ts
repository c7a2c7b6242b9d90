import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import { beforeEach, describe, expect, test } from "vitest";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "./collections.ts";
import { NodeDirectory, type RemoteAgentConnection } from "./directory.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const record = (name: string, address: string): NodeRecord => joinedNode(name, { address });
const local = new FakeAgent({ node: "here" });

let records: MemoryRecords;
let log: string[];
let directory: NodeDirectory;

beforeEach(async () => {
  records = new MemoryRecords();
  log = [];
  await records.transact((tx) => tx.put(nodeRecords, "there", record("there", "10.0.0.1")));
  directory = new NodeDirectory({
    nodes: records.collection(nodeRecords),
    local,
    connect: (row): RemoteAgentConnection => {
      log.push(`open ${row.address}`);
      const agent = new FakeAgent({ node: row.name });
      return Object.assign(agent, { close: () => log.push(`close ${row.address}`) });
    },
  });
});

describe("the agent directory", () => {
  test("gives the local agent, one connection per remote node, and nothing for strangers", () => {
    expect(directory.connection("here")).toBe(local);
    expect(directory.connection("there")).toBe(directory.connection("there"));
    expect(directory.connection("nowhere")).toBeUndefined();
    expect(log).toEqual(["open 10.0.0.1"]);
  });

  test("follows a node that moves and drops one that leaves", async () => {
    directory.connection("there");
    await records.transact((tx) =>
      tx.put(nodeRecords, "there", { ...record("there", "10.0.0.1"), nodeid: 5 }),
    );
    expect(log).toEqual(["open 10.0.0.1"]);
    await records.transact((tx) => tx.put(nodeRecords, "there", record("there", "10.0.0.2")));
    directory.connection("there");
    expect(log).toEqual(["open 10.0.0.1", "close 10.0.0.1", "open 10.0.0.2"]);
    await records.transact((tx) => tx.delete(nodeRecords, "there"));
    expect(directory.connection("there")).toBeUndefined();
    expect(log.at(-1)).toBe("close 10.0.0.2");
    directory.close();
  });
});
