// Every example of the repository, planned on a platform that has what it names.
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { wantedAddons } from "../addon/addon-catalogue.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { PveDriver } from "../driver/pve-driver.ts";
import { PveshCalls } from "../driver/pvesh-calls.ts";
import { unknownDesired } from "../engine/desired.ts";
import { guestsWorld } from "../engine/observe/look-at-guests.ts";
import { makeTrace } from "../engine/make-trace.ts";
import { preflight } from "../preflight/preflight.ts";
import { FakePlatform, fakePvesh } from "../testing/fake-platform.ts";
import { stepName } from "./plan-steps.ts";

const GIB = 1024 ** 3;
const examples = resolve(import.meta.dirname, "../../../../examples/talos");

function platformOf({ providers, network }: Cluster): FakePlatform {
  const platform = new FakePlatform();
  platform.nodes.clear();
  for (const node of providers.flatMap(({ nodes }) => nodes))
    platform.nodes.set(node, { status: "online", maxcpu: 16, maxmem: 64 * GIB, mem: 4 * GIB });
  const named = providers.flatMap(({ storage }) => Object.values(storage));
  platform.storages = [...new Set(named)].map((storage) => ({
    storage,
    active: 1,
    enabled: 1,
    content: "iso,import,images",
    avail: 1000 * GIB,
    shared: storage.startsWith("ceph") ? 1 : 0,
  }));
  platform.bridges = [{ iface: network.bridge, type: "bridge", mtu: "1500" }];
  platform.pools = providers.flatMap(({ pool }) => (pool === null ? [] : [pool]));
  return platform;
}

test.each(readdirSync(examples))(
  "the example %s can be made, from its image to its add-ons",
  async (file) => {
    const cluster = parseCluster(readFileSync(`${examples}/${file}`, "utf8"), file);
    const machines = machinesOf(cluster);
    const platform = platformOf(cluster);
    const openDriver = async () => new PveDriver("pve", new PveshCalls(fakePvesh(platform)));
    const { findings, observed } = await preflight({ cluster, machines, folder: examples, openDriver });
    expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
    const addons = wantedAddons(cluster).map(({ name, isNetwork = false }) => ({
      name,
      isNetwork,
      digest: "1",
    }));
    const world = guestsWorld(cluster, machines, observed, 0);
    const { steps, findings: stops } = makeTrace({ ...unknownDesired({ cluster, machines }), addons }, world);
    expect(stops).toEqual([]);
    const names = steps.map(stepName);
    expect(names.filter((name) => /^guest\.(create|clone) /.test(name))).toHaveLength(machines.length);
    expect(names.filter((name) => name.startsWith("etcd.bootstrap"))).toHaveLength(1);
    expect(names.filter((name) => name.startsWith("addon.apply"))).toEqual(
      addons.map(({ name }) => `addon.apply ${name}`),
    );
    expect(platform.done).toEqual([]);
  },
);
