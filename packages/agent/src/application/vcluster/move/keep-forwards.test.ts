import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { type ClusterPlace, placeCollection } from "@gpve/domain/vcluster/cluster-places.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { FileFormerPlaces } from "../../../infrastructure/vcluster/proxy/file-former-places.ts";
import { FakeClusterFront } from "../../../testing/fake-cluster-front.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { ClusterWays } from "../power/cluster-ways.ts";
import { KeepForwards, knownPlaces } from "./keep-forwards.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-forwards-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const demo: KeptCluster = {
  name: "demo",
  tenant: "default",
  spec: readVirtualClusterSpec({}),
  version: "1.36.4",
  network: 3,
  phase: "Running",
  isWanted: true,
};
const serverName = "demo.default.vc.gpve";

function world() {
  const [host, front, clock] = [new FakeClusterHost(), new FakeClusterFront(), new FakeClock(1_000)];
  const known: { places: ClusterPlace[] | undefined } = { places: undefined };
  const former = () => new FileFormerPlaces(join(folder, "former.json"));
  const forwards = new KeepForwards({
    node: "n1",
    host,
    former: former(),
    places: () => known.places,
    firstPort: 16_443,
    sharedPort: 16_442,
    clock,
    log: silentLogger,
  });
  const ways = new ClusterWays(host, front, () => forwards.routes());
  let told = 0;
  const look = async (): Promise<number> => {
    await forwards.look(async () => {
      told++;
      await ways.tell();
    });
    return told;
  };
  return { host, front, clock, known, former, forwards, look };
}

test("who has left is led to from its port, as soon as servers say where it is, and until it is gone", async () => {
  const { host, front, clock, known, former, forwards, look } = world();
  forwards.note(demo);
  forwards.note({ ...demo, name: "bare", network: undefined } as unknown as KeptCluster);
  expect([await look(), front.elsewhere]).toEqual([0, undefined]);
  known.places = [{ serverName, node: "n2", address: "10.0.0.2" }];
  expect(await look()).toBe(1);
  expect(front.elsewhere).toEqual([{ serverName, port: 16_446, target: { host: "10.0.0.2", port: 16_442 } }]);
  expect(await look()).toBe(1);
  // Written down: an agent that starts later knows it too.
  expect(former().list()).toEqual([{ serverName, network: 3, at: 1_000 }]);
  // Nobody else gets its port, and it gets it back.
  expect(forwards.networks({ name: "other", tenant: "default" })).toEqual({ taken: new Set([3]) });
  expect(forwards.networks(demo)).toEqual({ first: 3, taken: new Set() });
  // Nor that of one that is here, whether or not anything shows it.
  host.save({ ...demo, name: "asleep", network: 4 });
  expect(forwards.networks(demo)).toEqual({ first: 3, taken: new Set([4]) });
  host.kept.delete("asleep");
  known.places = [];
  expect([await look(), front.elsewhere, former().list().length]).toEqual([2, [], 1]);
  await clock.advance(700_000);
  await look();
  expect(former().list()).toEqual([]);
});

test("a node with workers of a cluster leads to its control plane; one that has that itself does not", async () => {
  const { host, known, forwards } = world();
  const nodes = [
    { node: "n1", address: "10.0.0.1" },
    { node: "n2", address: "10.0.0.2" },
  ];
  known.places = [{ serverName, node: "n2", address: "10.0.0.2" }];
  host.save({ ...demo, overlay: { nodes, at: 0, home: 1 } });
  host.way = () => undefined;
  expect(forwards.routes()).toMatchObject([{ port: 16_446, target: { host: "10.0.0.2" } }]);
  const alone = world();
  alone.known.places = known.places;
  alone.host.save(demo);
  expect(alone.forwards.routes()).toEqual([]);
});

test("it is looked at again and again, also after it could not be told", async () => {
  const { clock, known, forwards } = world();
  forwards.note(demo);
  known.places = [{ serverName, node: "n2", address: "10.0.0.2" }];
  let tries = 0;
  const following = forwards.follow(async () => {
    if (++tries < 3) throw new Error("the proxy is away");
  });
  await expect
    .poll(async () => {
      await clock.advance(1_000);
      return tries;
    })
    .toBe(3);
  forwards.close();
  await clock.advance(1_000);
  await following;
});

test("before a server was reached nobody knows, and what else fails is told", () => {
  const away = (): Records => {
    throw new AppError("store.unavailable", "this node has not reached a server yet");
  };
  expect(knownPlaces(away)).toBeUndefined();
  const place = { serverName, node: "n2", address: "10.0.0.2" };
  const collection = (def: unknown) => ({ list: () => (def === placeCollection ? [{ value: place }] : []) });
  expect(knownPlaces(() => ({ collection }) as unknown as Records)).toEqual([place]);
  expect(() =>
    knownPlaces(() => {
      throw new Error("broken");
    }),
  ).toThrow("broken");
});
