import { expect, it } from "vitest";
import { openAccessFixture } from "../../testing/access-fixture.ts";
import { createNodeReadHandlers } from "../../presentation/http/node/node-read-handlers.ts";
import { nodeRecords } from "./collections.ts";
import type { WakePacket } from "@gpve/domain/node/wake-packet.ts";
import { nodeConfigCollection, NodeConfigs } from "./node-configs.ts";
import { removeNode } from "./remove-node.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const CONFIG = "/nodes/{node}/config";

async function open() {
  const fixture = await openAccessFixture();
  const sent: WakePacket[] = [];
  const { records } = fixture;
  await records.transact((tx) => {
    for (const node of ["n1", "n2"]) tx.put(nodeRecords, node, joinedNode(node));
  });
  const send = async (packet: WakePacket): Promise<void> => void sent.push(packet);
  const configs = new NodeConfigs({ records, localNode: "n1", send });
  const handlers = createNodeReadHandlers({
    configs,
    localNode: "n1",
    fingerprintOf: () => "AA",
    caPem: () => "",
    certPem: () => "",
  });
  Object.assign(fixture.handlers, handlers);
  const call = (route: string, params: Record<string, unknown>, who = "root@pam") =>
    fixture.call(who, route, params);
  return Object.assign(fixture, { sent, asked: call });
}

it("keeps what was set of a node, by its digest, until it is deleted", async () => {
  await using world = await open();
  expect(await world.asked(`GET ${CONFIG}`, { node: "n2" })).toEqual({});
  const set = { node: "n2", description: "rack 4", wakeonlan: "mac=BC:24:11:00:00:01" };
  expect(await world.asked(`PUT ${CONFIG}`, set)).toBeNull();
  const shown = (await world.asked(`GET ${CONFIG}`, { node: "n2" })) as Record<string, string>;
  expect(shown).toEqual({
    description: "rack 4\n",
    wakeonlan: "mac=BC:24:11:00:00:01",
    digest: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
  });
  expect(await world.asked(`GET ${CONFIG}`, { node: "n2", property: "description" })).toEqual({
    description: "rack 4\n",
  });
  expect(await world.asked(`GET ${CONFIG}`, { node: "n2", property: "location" })).toEqual({});
  expect(await world.asked(`GET ${CONFIG}`, { node: "n1" })).toEqual({});
  const stale = { node: "n2", location: "latitude=48,longitude=11", digest: "0".repeat(40) };
  expect(await world.asked(`PUT ${CONFIG}`, stale)).toContain("detected modified configuration");
  expect(await world.asked(`PUT ${CONFIG}`, { ...stale, digest: shown["digest"] })).toBeNull();
  const rest = "description,wakeonlan,location,acme";
  expect(await world.asked(`PUT ${CONFIG}`, { node: "n2", delete: rest })).toBeNull();
  expect(await world.asked(`GET ${CONFIG}`, { node: "n2" })).toEqual({});
});

it("refuses what it would not heed, what is wrong, nodes that are not there and whoever may not", async () => {
  await using world = await open();
  const put = (more: object, who?: string) => world.asked(`PUT ${CONFIG}`, { node: "n2", ...more }, who);
  expect(await put({ "startall-onboot-delay": 30 })).toMatch(
    /^501 cannot set 'startall-onboot-delay' of node 'n2'.*description, location, wakeonlan can be set/,
  );
  expect(await put({ wakeonlan: "mac=nothing" })).toMatch(/^400 .*wakeonlan/s);
  expect(await put({ location: "latitude=99,longitude=1" })).toMatch(/^400 .*location/s);
  expect(await world.asked(`PUT ${CONFIG}`, { node: "n9", description: "x" })).toMatch(
    /^500 no such cluster node 'n9'/,
  );
  await world.call("root@pam", "POST /access/users", { userid: "joe@pve", password: "long enough" });
  expect(await put({ description: "x" }, "joe@pve")).toMatch(/^403 /);
  expect(await world.asked("POST /nodes/{node}/wakeonlan", { node: "n2" }, "joe@pve")).toMatch(/^403 /);
  expect(world.records.collection(nodeConfigCollection).list()).toEqual([]);
});

it("wakes a node with the packet that its card waits for, by this node's own way out", async () => {
  await using world = await open();
  const wake = (node: string) => world.asked("POST /nodes/{node}/wakeonlan", { node });
  expect(await wake("n1")).toMatch(/^500 'n1' is local node, cannot wake my self!/);
  expect(await wake("n9")).toMatch(/^500 no such cluster node 'n9'/);
  expect(await wake("n2")).toMatch(/^500 No wake on LAN MAC address defined for 'n2'!/);
  expect(world.sent).toEqual([]);
  await world.asked(`PUT ${CONFIG}`, { node: "n2", wakeonlan: "BC:24:11:00:00:01" });
  expect(await wake("n2")).toBe("BC:24:11:00:00:01");
  const own = "mac=BC:24:11:00:00:0F,bind-interface=vmbr1,broadcast-address=10.0.0.255";
  await world.asked(`PUT ${CONFIG}`, { node: "n1", wakeonlan: own });
  expect(await wake("n2")).toBe("BC:24:11:00:00:01");
  expect(world.sent).toMatchObject([
    { broadcast: "255.255.255.255", iface: undefined },
    { broadcast: "10.0.0.255", iface: "vmbr1" },
  ]);
  const hex = Buffer.from(world.sent[0]?.bytes ?? []).toString("hex");
  expect(hex).toBe(`ffffffffffff${"bc2411000001".repeat(16)}`);
});

it("forgets a node that is removed", async () => {
  await using world = await open();
  await world.asked(`PUT ${CONFIG}`, { node: "n2", description: "old" });
  await world.records.transact((tx) => removeNode(tx, { node: "n2", force: false, ownNode: "n1" }));
  expect(world.records.collection(nodeConfigCollection).list()).toEqual([]);
});
