import { beforeEach, expect, test } from "vitest";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import { FakeKubernetes } from "../testing/fake-kubernetes.ts";
import { FakeProbes } from "../testing/fake-probes.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { probeObject } from "./probe-objects.ts";
import { verifyInside } from "./verify-inside.ts";

let probes: FakeProbes;
beforeEach(() => {
  probes = new FakeProbes(new FakeKubernetes({ kubelets: () => [], isUp: () => true }), ["a", "b", "c"]);
});

async function verify(nodes: readonly string[] = ["a", "b", "c"]) {
  const checks = await verifyInside({
    kubernetes: new RestKubernetes(probes.send),
    clock: instantClock(),
    nodes,
    dnsDomain: "cluster.local",
    image: "busybox",
    timeoutMs: 60_000,
  });
  expect(probes.left()).toEqual([]);
  return checks;
}
const bad = async () =>
  (await verify()).filter(({ isFine }) => !isFine).map(({ name, detail }) => `${name}: ${detail}`);

test("a cluster that works passes every check, and nothing of the looking is left", async () => {
  probes.addClass("fast", "csi.example.org", true);
  const checks = await verify();
  expect(checks.map(({ name, isFine, detail }) => `${isFine ? "ok" : "bad"} ${name}: ${detail}`)).toEqual([
    "ok pods run on every node: 3 of 3",
    "ok nodes reach each other: 6 ways",
    "ok nodes reach each other with large packets: 6 ways",
    "ok pods reach pods on other nodes: 6 ways",
    "ok pods reach pods with large packets: 6 ways",
    "ok names are found in pods: kubernetes.default.svc.cluster.local",
    "ok a volume of the default storage class is bound and written: fast",
  ]);
});

test("a class without a provisioner is no class to try", async () => {
  probes.addClass("local-storage", "kubernetes.io/no-provisioner", true);
  expect((await verify()).at(-1)).toMatchObject({ isFine: true, detail: "there is none with a provisioner" });
});

test("large packets that do not pass are told by their way", async () => {
  probes.says("probe-pods-0", "large b");
  expect(await bad()).toEqual(["pods reach pods with large packets: a -> b"]);
});

test("what does not run is told with its kubelet's reason", async () => {
  probes.stuck.add("c");
  expect(await bad()).toContain("pods run on every node: c (ImagePullBackOff)");
});

test("an image that is nowhere to be had ends it at once", async () => {
  for (const node of ["a", "b", "c"]) probes.stuck.add(node);
  expect(await bad()).toHaveLength(1);
});

test("a cluster that forbids pods in the host's network says so, and the rest is tried", async () => {
  probes.forbidden.add("server-hosts");
  const why = 'pods are refused: Error creating: pods "server-hosts-" is forbidden: hostNetwork';
  expect(await bad()).toEqual([
    `nodes reach each other: ${why}`,
    `nodes reach each other with large packets: ${why}`,
  ]);
  probes.forbidden.add("server-pods");
  expect(await bad()).toMatchObject([expect.stringContaining("pods run on every node: pods are refused")]);
});

test("names, ways and volumes that fail, and pods that never end", async () => {
  probes.addClass("fast", "csi.example.org", true);
  probes.says("probe-pods-1", "name kubernetes.default.svc.cluster.local\nreach c");
  probes.says("probe-hosts-2", "reach a\nlarge a");
  probes.says("probe-claim", "write claim");
  expect(await bad()).toEqual([
    "nodes reach each other: c -> a",
    "nodes reach each other with large packets: c -> a",
    "pods reach pods on other nodes: b -> c",
    "names are found in pods: b -> kubernetes.default.svc.cluster.local",
    "a volume of the default storage class is bound and written: fast: it cannot be written",
  ]);
  probes.endless.add("probe-claim");
  expect((await bad()).at(-1)).toContain("the pod with it did not end");
});

test("without a node or without an API it says so", async () => {
  expect(await verify([])).toMatchObject([{ isFine: false, detail: "no node is ready" }]);
  probes.fails = true;
  expect(await verify()).toMatchObject([{ name: "pods can be tried", isFine: false }]);
});

test("a probe's script asks with nothing that a shell would read", () => {
  const { spec } = probeObject("busybox", {
    name: "p",
    node: "a",
    network: "pods",
    targets: [{ node: "b;$(reboot)", address: "fd00::1" }],
    names: ["x y"],
  }) as unknown as { spec: { containers: { command: string[] }[] } };
  const script = spec.containers[0]?.command[2] ?? "";
  expect(script).toContain("http://[fd00::1]:18998/large");
  expect(script).not.toContain("$(reboot)");
});
