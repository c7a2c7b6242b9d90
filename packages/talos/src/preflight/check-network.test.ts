import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { PveDriver } from "../driver/pve-driver.ts";
import { PveshCalls } from "../driver/pvesh-calls.ts";
import type { Step } from "../plan/plan-steps.ts";
import { guestSettings } from "../plan/guest-config.ts";
import { FakeNetwork } from "../testing/fake-network.ts";
import { FakePlatform, fakePvesh } from "../testing/fake-platform.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { probeUpgradeSource } from "./check-network.ts";
import { preflight } from "./preflight.ts";

const FACTORY = "https://factory.talos.dev";
const sign = { how: "port 22 is open", mac: "AA:BB:CC:00:00:01", isSure: true };

interface Given {
  readonly network?: (network: FakeNetwork) => void;
  readonly platform?: (platform: FakePlatform) => void;
  readonly file?: Readonly<Record<string, unknown>>;
}

const ntp = (...servers: readonly string[]) => ({
  network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", ntp: servers },
});

async function look(given: Given = {}) {
  const network = new FakeNetwork();
  network.factories.set(FACTORY, ["v1.13.8", "v1.13.9"]);
  given.network?.(network);
  const platform = new FakePlatform();
  given.platform?.(platform);
  const cluster = testCluster(given.file);
  const { findings } = await preflight({
    cluster,
    machines: machinesOf(cluster),
    folder: import.meta.dirname,
    openDriver: async () => new PveDriver("pve", new PveshCalls(fakePvesh(platform))),
    probes: network,
  });
  // Whatever was found: nothing was touched.
  expect(platform.done).toEqual([]);
  return {
    asked: network.asked,
    found: findings.map(({ id, severity, subject, evidence }) => `${severity} ${id} ${subject}: ${evidence}`),
  };
}

test("every address of a new cluster is asked for, the shared one too", async () => {
  const { asked, found } = await look();
  expect(found).toEqual([]);
  expect(asked.toSorted()).toEqual([
    "10.0.0.10",
    "10.0.0.11",
    "10.0.0.12",
    "10.0.0.20",
    "10.0.0.21",
    "10.0.0.9",
  ]);
});

test.each<[string, Given, readonly string[]]>([
  [
    "an address that somebody has",
    { network: (n) => n.answering.set("10.0.0.20", sign) },
    ["error address-answers prod-worker-1: 10.0.0.20 answers: port 22 is open, MAC AA:BB:CC:00:00:01"],
  ],
  [
    "the shared address that somebody has",
    { network: (n) => n.answering.set("10.0.0.9", sign) },
    ["error address-answers endpoint.vip: 10.0.0.9 answers: port 22 is open, MAC AA:BB:CC:00:00:01"],
  ],
  [
    "an address that perhaps somebody has",
    { network: (n) => n.answering.set("10.0.0.10", { ...sign, mac: undefined, isSure: false }) },
    ["warning address-answers prod-cp-1: 10.0.0.10 answers: port 22 is open"],
  ],
  [
    "what is left of a machine of ours",
    {
      network: (n) => {
        const mac = machinesOf(testCluster())[0]?.mac.toUpperCase();
        n.answering.set("10.0.0.10", { ...sign, mac });
      },
    },
    [],
  ],
  [
    "addresses that are not to be asked for",
    {
      network: (n) => n.answering.set("10.0.0.10", sign),
      file: { network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", ipam: { probe: false } } },
    },
    [],
  ],
  [
    "time servers of which none answers",
    {
      network: (n) => {
        n.timeless.set("time.example", "nobody answers");
        n.timeless.set("10.0.0.1", "it refuses");
      },
      file: ntp("time.example", "10.0.0.1"),
    },
    ["warning time-source-silent network.ntp: time.example: nobody answers; 10.0.0.1: it refuses"],
  ],
  [
    "time servers of which one answers",
    {
      network: (n) => n.timeless.set("time.example", "nobody answers"),
      file: ntp("time.example", "10.0.0.1"),
    },
    [],
  ],
  [
    "a clock of the host's own",
    {
      network: (n) => n.timeless.set("time.example", "nobody answers"),
      file: ntp("/dev/ptp0", "time.example"),
    },
    [],
  ],
  [
    "a version that the factory does not have",
    { network: (n) => n.factories.set(FACTORY, ["v1.12.1", "v1.13.7", "v1.13.8"]) },
    ["error image-version-unknown v1.13.9: https://factory.talos.dev has v1.13.7, v1.13.8"],
  ],
  [
    "a minor that the factory does not have",
    { network: (n) => n.factories.set(FACTORY, ["v1.12.1"]) },
    ["error image-version-unknown v1.13.9: https://factory.talos.dev has no v1.13"],
  ],
  [
    "a factory that does not answer",
    { network: (n) => n.factories.clear() },
    ["warning image-source-silent v1.13.9: https://factory.talos.dev: nobody answers"],
  ],
  [
    "a mirror in its place",
    {
      network: (n) => {
        n.factories.clear();
        n.factories.set("https://images.example", ["v1.13.9"]);
      },
      file: { image: { mirrors: ["https://images.example"] } },
    },
    [],
  ],
])("%s", async (_what, given, expected) => {
  expect((await look(given)).found).toEqual(expected);
});

test("machines that are there answer as they should, and their image is not needed", async () => {
  const cluster = testCluster();
  const { asked, found } = await look({
    file: ntp("time.example"),
    network: (n) => {
      n.factories.clear();
      n.timeless.set("time.example", "nobody answers");
      for (const { addresses } of machinesOf(cluster)) n.answering.set(addresses[0] ?? "", sign);
      n.answering.set("10.0.0.9", sign);
    },
    platform: (p) => {
      for (const machine of machinesOf(cluster)) {
        const config = { ...guestSettings(cluster, machine) };
        p.guests.set(machine.vmid, { node: machine.host, status: "running", config });
      }
    },
  });
  expect(found).toEqual([]);
  expect(asked).toEqual([]);
});

test("a version to upgrade to is asked for, unless the images are brought along", async () => {
  const network = new FakeNetwork();
  network.factories.set(FACTORY, ["v1.13.8", "v1.13.9"]);
  const upgrade: Step = {
    kind: "talos.upgrade",
    impact: "disruptive",
    subject: "prod-worker-1",
    from: "v1.13.9",
    to: "v1.13.10",
  };
  const asked = (steps: readonly Step[], image: object = {}) =>
    probeUpgradeSource(testCluster({ versions: { talos: "v1.13.10" }, image }), steps, network);
  expect(await asked([upgrade])).toMatchObject([{ severity: "error", id: "image-version-unknown" }]);
  expect(await asked([])).toEqual([]);
  expect(await asked([upgrade], { offlineDir: "./images" })).toEqual([]);
});
