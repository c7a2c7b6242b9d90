// Nodes that go down while all is disarmed.
import { expect, test } from "vitest";
import { play, said, where } from "../testing/play.ts";

const services = { "vm:101": { node: "node1" }, "vm:103": { node: "node3" } };
const whileDisarmed = (mode: string, event: string) => [
  [`crm node1 disarm-ha ${mode}`],
  [event],
  ["delay 100"],
  ["crm node1 arm-ha"],
  ["delay 300"],
];

test("one that goes down in good order leaves nobody who might run: its services are recovered once armed", () => {
  const world = play({ services, script: whileDisarmed("ignore", "shutdown node3") });
  expect(said(world, "service status vm:103 stopped")).toBe(true);
  expect(where(world)["vm:103"]).toBe("started node2 node2");
});

test.each(["freeze", "ignore"])("one that is cut off is waited for, and it is said why: %s", (mode) => {
  const world = play({ services, script: whileDisarmed(mode, "network node3 off") });
  expect(said(world, "they cannot be proven stopped, waiting for it")).toBe(true);
  expect(where(world)["vm:103"]).toBe("started node3 node3");
});

test("what a policy froze stays frozen until its node is back", () => {
  const settings = { shutdownPolicy: "freeze" as const };
  const script = [["shutdown node3"], ["delay 300"]];
  expect(where(play({ services, settings, script }))["vm:103"]).toBe("freeze node3 -");
  const back = play({ services, settings, script: [...script, ["power node3 on"]] });
  expect(where(back)["vm:103"]).toBe("started node3 node3");
});
