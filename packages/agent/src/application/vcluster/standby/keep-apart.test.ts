import { expect, test } from "vitest";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { heardLog } from "../../../testing/heard-log.ts";
import { KeepApart } from "./keep-apart.ts";

const cluster = (name: string, egress: string, network: number): KeptCluster => ({
  name,
  tenant: "shop",
  spec: readVirtualClusterSpec({ networking: { egress } }),
  version: "1.36.4",
  network,
  phase: "Running",
  isWanted: true,
});
const joined: StandbyRuntime = {
  generation: 1,
  isJoined: true,
  isConnected: true,
  revision: 1,
  confirmed: 1,
};

function world() {
  const told = new Map<string, StandbyRuntime>([
    ["wide", joined],
    ["closed", joined],
  ]);
  const seen = { silentMs: 0 as number | undefined, isBroken: false };
  const done: string[] = [];
  const { log, fields: heard } = heardLog();
  const keeper = new KeepApart({
    host: {
      list: () => [cluster("wide", "nat", 3), cluster("closed", "none", 4), cluster("alone", "nat", 5)],
    },
    standbys: { state: (name) => told.get(name) },
    silentMs: () => seen.silentMs,
    shut: async (network, isShut) => {
      if (seen.isBroken) throw new Error("no nft");
      done.push(`${network} ${isShut ? "shut" : "open"}`);
    },
    clock: new FakeClock(0),
    log,
  });
  return { keeper, told, seen, done, heard };
}

test("pods of a cluster that may go on elsewhere do not go out while nobody is heard of, and go out again", async () => {
  const { keeper, told, seen, done } = world();
  const look = async (): Promise<readonly string[]> => {
    await keeper.look();
    return done.splice(0);
  };
  seen.silentMs = leaseTimes.stopMs;
  // Its standby confirms: nobody has taken it over. What an agent before has said is not known.
  expect(await look()).toEqual(["3 open", "5 open"]);
  expect(await look()).toEqual([]);
  for (const name of ["wide", "closed"]) told.set(name, { ...joined, isConnected: false });
  seen.silentMs = leaseTimes.stopMs - 1;
  expect(await look()).toEqual([]);
  seen.silentMs = leaseTimes.stopMs;
  expect(await look()).toEqual(["3 shut"]);
  expect(await look()).toEqual([]);
  seen.silentMs = 100;
  expect(await look()).toEqual(["3 open"]);
  seen.silentMs = leaseTimes.stopMs;
  expect(await look()).toEqual(["3 shut"]);
  told.set("wide", joined);
  expect(await look()).toEqual(["3 open"]);
});

test("whoever nobody could go on with runs on, and what fails is tried again", async () => {
  const { keeper, told, seen, done, heard } = world();
  seen.silentMs = leaseTimes.stopMs;
  told.set("wide", { ...joined, isJoined: false, isConnected: false });
  await keeper.look();
  told.delete("wide");
  await keeper.look();
  told.set("wide", { ...joined, isConnected: false });
  seen.silentMs = undefined;
  await keeper.look();
  expect(done.splice(0)).toEqual(["3 open", "5 open"]);
  [seen.silentMs, seen.isBroken] = [leaseTimes.stopMs, true];
  await keeper.look();
  expect(JSON.stringify(heard)).toContain("no nft");
  seen.isBroken = false;
  await keeper.look();
  expect(done).toEqual(["3 shut"]);
});
