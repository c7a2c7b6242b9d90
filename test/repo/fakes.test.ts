// One fake for each port, and one suite that the fake and what it stands for both pass: else tests prove what is not so.
import { describe, expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

interface Fake {
  /** The class, or what stands for it. */
  readonly fake: string;
  readonly suite: string;
  /** Files that run the suite: on the fake, and on the real thing. */
  readonly onFake: string;
  readonly onReal: string;
}

const FAKES: Readonly<Record<string, Fake>> = {
  AgentConnection: {
    fake: "packages/domain/src/node/testing/fake-agent.ts",
    suite: "agentConnectionConformance",
    onFake: "packages/server/src/testing/fake-agent.test.ts",
    onReal: "packages/server/src/presentation/grpc/agent-contract.test.ts",
  },
  Clock: {
    fake: "packages/kit/src/testing/fake-clock.ts",
    suite: "clockConformance",
    onFake: "packages/kit/src/clock.test.ts",
    onReal: "packages/kit/src/clock.test.ts",
  },
  HostMemory: {
    fake: "packages/agent/src/testing/fake-host-memory.ts",
    suite: "hostMemoryConformance",
    onFake: "packages/agent/src/testing/fake-host-memory.test.ts",
    onReal: "packages/agent/src/infrastructure/host/host-memory.test.ts",
  },
  Journal: {
    fake: "packages/kit/src/testing/memory-journal.ts",
    suite: "journalConformance",
    onFake: "packages/kit/src/operation/journal.test.ts",
    onReal: "packages/store/src/journal/store-journal.test.ts",
  },
  Probes: {
    fake: "packages/talos/src/testing/fake-network.ts",
    suite: "probesConformance",
    onFake: "packages/talos/src/preflight/network-probes.test.ts",
    onReal: "packages/talos/src/preflight/network-probes.test.ts",
  },
  QemuProcesses: {
    fake: "packages/agent/src/testing/fake-guests.ts",
    suite: "guestProcessesConformance",
    onFake: "packages/agent/src/testing/fake-guests.test.ts",
    onReal: "packages/agent/src/infrastructure/guest-process/supervised-guests.test.ts",
  },
  QemuProcess: {
    fake: "packages/agent/src/testing/fake-guests.ts",
    suite: "guestProcessesConformance",
    onFake: "packages/agent/src/testing/fake-guests.test.ts",
    onReal: "packages/agent/src/infrastructure/guest-process/supervised-guests.test.ts",
  },
  Qmp: {
    fake: "packages/agent/src/testing/fake-qmp.ts",
    suite: "qmpConformance",
    onFake: "packages/agent/src/testing/fake-qmp.test.ts",
    onReal: "packages/agent/src/infrastructure/qmp/qmp-client.test.ts",
  },
  RealmLogin: {
    fake: "packages/server/src/testing/fake-realm-login.ts",
    suite: "realmLoginConformance",
    onFake: "packages/server/src/application/access/realm-logins.test.ts",
    onReal: "packages/server/src/application/access/realm-logins.test.ts",
  },
  Records: {
    fake: "packages/server/src/testing/memory-records.ts",
    suite: "recordsConformance",
    onFake: "packages/server/src/testing/memory-records.test.ts",
    onReal: "packages/store/src/records/records-conformance.test.ts",
  },
  TaskLogSink: {
    fake: "packages/kit/src/testing/memory-task-logs.ts",
    suite: "taskLogConformance",
    onFake: "packages/kit/src/testing/memory-task-logs.test.ts",
    onReal: "packages/kit/src/task-log/task-log-files.test.ts",
  },
  VmNetwork: {
    fake: "packages/agent/src/testing/fake-vm-network.ts",
    suite: "vmNetworkConformance",
    onFake: "packages/agent/src/testing/fake-vm-network.test.ts",
    onReal: "test/integration/vm-bridges.test.ts",
  },
};

/** Classes in tests that stand for nothing of ours that could be wrong in its place. */
const OTHERS: Readonly<Record<string, string>> = {
  ClusterHost:
    "the real one needs Kubernetes: what it does is tested on it (test/integration/vcluster.test.ts)",
  ClusterSaves:
    "the store of a cluster is one word to it; the real one is tested on stores and archives (file-cluster-saves.test.ts)",
  AsyncDisposable: "JavaScript's",
  ClusterFront:
    "it notes what it is told; what the real one does with connections is tested on sockets (endpoint-proxy.test.ts)",
  ConsoleSocket: "one end of a pipe: the other end is the test",
  MessageSocket: "one end of a pipe: the other end is the test",
  MovePeers:
    "it notes what it is sent; what real ones do with bytes is tested on sockets (move-channel.test.ts)",
  MoveServers:
    "it moves a record from node to node; what servers make of that is tested where they do (guest-moves.test.ts)",
  VnodeDeviceHost:
    "it counts; who gets which device, and what a kubelet is told, is tested on files and sockets (vnode-devices.test.ts)",
  VnodeHost:
    "the real one needs Kubernetes: what it does is tested on it (test/integration/vcluster-workers.test.ts)",
  SnapshotHost: "PVE's snapshot suite decides what it does (test/conformance/qemu-snapshot.test.ts)",
  Transport:
    "it records requests; what real ones do with bytes is tested on sockets (node-transport.test.ts)",
};

const inTests = sources().filter((path) => isTest(path) || path.includes("/testing/"));

describe("fakes", () => {
  test("are one for each port, and each is in the table", () => {
    const found = inTests.flatMap((path) =>
      [...read(path).matchAll(/class \w+ (?:extends \w+ )?implements (\w+)/gu)].map(
        ([, port = ""]) => [port, path] as const,
      ),
    );
    const ours = found.filter(([port]) => OTHERS[port] === undefined);
    const help = "a new fake: add its suite to FAKES, or to OTHERS why it needs none";
    expect(ours.map(([port, path]) => `${port} ${path}`).toSorted(), help).toEqual(
      Object.entries(FAKES)
        .map(([port, { fake }]) => `${port} ${fake}`)
        .toSorted(),
    );
    for (const port of Object.keys(OTHERS)) expect(found.map(([name]) => name)).toContain(port);
  });

  test("are not made by the way: a constant of a test that has the type of such a port", () => {
    const ports = Object.keys(FAKES).join("|");
    const byTheWay = new RegExp(`(?:const|let) \\w+: (?:${ports}) = \\{(?!\\s*\\.\\.\\.)`, "u");
    expect(inTests.filter((path) => byTheWay.test(read(path)))).toEqual([]);
  });

  test.each(Object.entries(FAKES))("%s passes the suite that the real one passes", (_port, fake) => {
    const { suite, onFake, onReal } = fake;
    const runs = (path: string): number => read(path).split(`${suite}(`).length - 1;
    expect(runs(onFake)).toBeGreaterThanOrEqual(onFake === onReal ? 2 : 1);
    expect(runs(onReal)).toBeGreaterThanOrEqual(1);
  });
});
