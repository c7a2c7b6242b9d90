import { describe, expect, test } from "vitest";
import { readVirtualClusterSpec } from "../vcluster-spec.ts";
import { clusterDns } from "./cluster-dns.ts";
import { admissionConfig, GUARD_OBJECTS, guardKind, guardManifests, isGuardsRefusal } from "./guard.ts";
import { podNetwork, readBytes, readCpus, vnodeName } from "./vnode.ts";
import { kataOf, kataRuntimeClass } from "./kata.ts";
import {
  containerdConfig,
  kubeletConfig,
  kubeProxyConfig,
  podNetworkConfig,
  type VnodeHostFacts,
  type VnodePlace,
  workerRules,
} from "./vnode-files.ts";

const place: VnodePlace = {
  name: "worker-1",
  address: "100.80.0.10",
  podNetwork: "10.244.0.0/24",
  file: (name) => `/w/etc/${name}`,
  containers: "/w/containerd",
  cgroup: "/gpve-1/vnode-demo.w0",
  plugins: "/c/cni",
  runc: "/c/runc",
  pauseImage: "gpve.local/pause:1",
};
const host: VnodeHostFacts = {
  cgroupVersion: 1,
  cpus: 8,
  memoryBytes: 16 * 2 ** 30,
  mayLowerOomScore: false,
  filtersBridges: true,
};
const spec = readVirtualClusterSpec({});

describe("a worker", () => {
  test("has a name and addresses of its own, as far as the cluster's network goes", () => {
    expect([vnodeName(0), vnodeName(1)]).toEqual(["worker-1", "worker-2"]);
    expect(podNetwork("10.244.0.0/16", 2)).toBe("10.244.2.0/24");
    expect(podNetwork("10.244.0.0/22", 3)).toBe("10.244.3.0/24");
    expect(podNetwork("10.244.0.0/22", 4)).toBeUndefined();
    expect(podNetwork("nothing", 0)).toBeUndefined();
  });

  test("is sized as Kubernetes writes amounts", () => {
    expect([readCpus("2"), readCpus("500m"), readCpus(1.5), readCpus("two")]).toEqual([
      2,
      0.5,
      1.5,
      undefined,
    ]);
    expect([readBytes("2Gi"), readBytes("1k"), readBytes(5), readBytes("2 GB")]).toEqual([
      2 * 2 ** 30,
      1000,
      5,
      undefined,
    ]);
    const read = (resources: object) => readVirtualClusterSpec({ workerNodes: { count: 2, resources } });
    expect(read({ cpu: "1500m", memory: "1Gi" }).workerSize).toEqual({ cpus: 1.5, memoryBytes: 2 ** 30 });
    expect(() => read({ cpu: "0" })).toThrow("workerNodes.resources.cpu");
    expect(() => read({ memory: "1Mi" })).toThrow("at least 256Mi");
    expect(() => readVirtualClusterSpec({ workerNodes: { count: 999 } })).toThrow("room for 200 workers");
    const small = { workerNodes: { count: 5 }, networking: { podCIDR: "10.1.0.0/22" } };
    expect(() => readVirtualClusterSpec(small)).toThrow("no room for the pods of 5 workers");
  });
});

describe("the settings of a worker's programs", () => {
  test("give containerd nothing but Kata on level L2, whatever handler a RuntimeClass names", () => {
    const kata = { shim: "/opt/kata/bin/containerd-shim-kata-v2", config: "/etc/kata.toml" };
    const text = containerdConfig({ ...place, kata }, host);
    expect(text).toContain('default_runtime_name = "kata"');
    expect(text.match(/runtime_type = .*/g)).toEqual([
      'runtime_type = "io.containerd.kata.v2"',
      'runtime_type = "io.containerd.kata.v2"',
    ]);
    expect(text.match(/runtimes\.\w+\]/g)).toEqual([
      "runtimes.runc]",
      `runtimes.${String(kataRuntimeClass.body["handler"])}]`,
    ]);
    expect(text.match(/ConfigPath = "\/etc\/kata.toml"/g)).toHaveLength(2);
    expect(text).not.toMatch(/annotations|BinaryName/);
  });

  test("say of level L2 what a node lacks for it", () => {
    expect([kataOf(undefined), kataOf([])]).toEqual(["untold", "untold"]);
    expect(kataOf([{ name: "kata", available: false, detail: "no shim" }])).toEqual({
      refusal: "no shim (see gpvectl node capabilities)",
    });
    expect(kataOf([{ name: "kata", available: true, detail: "" }])).toBe("able");
  });

  test("let containerd know of devices only where they are the worker's, in a folder of its own", () => {
    const without = containerdConfig(place, host);
    expect(without).not.toContain("cdi");
    const text = containerdConfig({ ...place, devices: "/w/etc/cdi" }, host);
    const added = text.split("\n").filter((line) => !without.split("\n").includes(line));
    expect(added).toEqual(['  cdi_spec_dirs = ["/w/etc/cdi"]']);
    // Of the runtime, not of what stands below it.
    const section = text
      .slice(0, text.indexOf("cdi_spec_dirs"))
      .match(/^\[.*\]$/gm)
      ?.at(-1);
    expect(section).toBe("[plugins.'io.containerd.cri.v1.runtime']");
  });

  test("give containerd its own place, and shims one that outlives it", () => {
    const text = containerdConfig(place, host);
    expect(text).toContain('root = "/w/containerd"');
    expect(text).toContain('ShimCgroup = "/gpve-1/vnode-demo.w0/shims"');
    expect(text).toContain("restrict_oom_score_adj = true");
    expect(containerdConfig(place, { ...host, mayLowerOomScore: true })).toContain("score_adj = false");
  });

  test("let the kubelet act while the node still has room, and look for images that nobody uses first", () => {
    const config = JSON.parse(kubeletConfig(spec, place, { cpus: 2, memoryBytes: 2 ** 30 }, host)) as {
      evictionHard: Record<string, string>;
      imageGCHighThresholdPercent: number;
    };
    const left = ["nodefs.available", "imagefs.available"].map((signal) => config.evictionHard[signal] ?? "");
    for (const share of left) {
      // A number of bytes is nothing of a big disk, and all of a small one.
      expect(share).toMatch(/^\d+%$/);
      expect(Number.parseInt(share)).toBeLessThan(100 - config.imageGCHighThresholdPercent);
    }
  });

  test("give the kubelet the worker's size, and show nobody what is the machine's", () => {
    const size = { cpus: 2, memoryBytes: 2 ** 30 };
    const config = JSON.parse(kubeletConfig(spec, place, size, host)) as Record<string, unknown>;
    expect(config).toMatchObject({
      cgroupRoot: "/gpve-1/vnode-demo.w0",
      failCgroupV1: false,
      clusterDNS: ["10.96.0.10"],
      authentication: { anonymous: { enabled: false } },
      enableSystemLogHandler: false,
      protectKernelDefaults: true,
      systemReserved: { cpu: "6000m", memory: String(15 * 2 ** 30 - 50 * 2 ** 20) },
    });
    expect(config["staticPodPath"]).toBeUndefined();
    expect(kubeletConfig(spec, place, size, { ...host, cgroupVersion: 2 })).not.toContain("failCgroupV1");
    // Larger than the machine: nothing is reserved.
    const all = kubeletConfig(spec, place, { cpus: 99, memoryBytes: 2 ** 50 }, host);
    expect(JSON.parse(all)).toMatchObject({ systemReserved: { cpu: "0m", memory: "0" } });
  });

  test("connect pods without masking them from each other", () => {
    expect(podNetworkConfig(place)).toContain('"subnet": "10.244.0.0/24"');
    expect(podNetworkConfig(place)).not.toContain("ipMasq");
    expect(workerRules("10.244.0.0/16")).toContain(
      'ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 oifname "eth0" masquerade',
    );
    expect(JSON.parse(kubeProxyConfig(spec, place, host))).toMatchObject({
      mode: "nftables",
      nftables: { masqueradeAll: false },
    });
    expect(kubeProxyConfig(spec, place, { ...host, filtersBridges: false })).toContain(
      '"masqueradeAll": true',
    );
  });
});

describe("what is in every cluster with workers", () => {
  test("answers names at the address that pods ask", () => {
    const objects = clusterDns({ ...spec, dnsDomain: "shop.test" }, "gpve.local/coredns:1", () => ({
      listed: ["10.0.0.53"],
      own: [],
    }));
    expect(JSON.stringify(objects)).toContain('"clusterIP":"10.96.0.10"');
    expect(JSON.stringify(objects)).toContain("kubernetes shop.test in-addr.arpa");
  });

  test("asks the node's name servers for names outside, where pods go out and only there", () => {
    const forward = (more: Partial<typeof spec>, listed = ["10.0.0.53", "10.0.0.54"]) =>
      /forward [^\\]*/.exec(
        JSON.stringify(clusterDns({ ...spec, ...more }, "coredns", () => ({ listed, own: ["10.0.0.54"] }))),
      )?.[0];
    expect(forward({ egress: "nat" })).toBe("forward . 10.0.0.53 {");
    expect(forward({})).toBeUndefined();
    // CoreDNS does not start without anybody to ask.
    expect(forward({ egress: "nat" }, ["127.0.0.53"])).toBeUndefined();
  });

  test.each(["files", "objects"] as const)("is guarded by rules in %s", (kind) => {
    const objects = guardManifests(kind);
    const names = objects.map(({ metadata }) => metadata.name);
    expect(new Set(names.map((name) => name.endsWith(".static.k8s.io")))).toEqual(
      new Set([kind === "files"]),
    );
    expect(names.every((name) => name.startsWith(GUARD_OBJECTS))).toBe(true);
    expect(JSON.stringify(objects)).toContain("hostNetwork");
  });

  test("is guarded in the way that its version has", () => {
    expect(JSON.parse(admissionConfig("/g/rules"))).toMatchObject({
      plugins: [{ configuration: { staticManifestsDir: "/g/rules" } }],
    });
    expect(["1.31.9", "1.35.6", "1.36.4", "2.0.0"].map(guardKind)).toEqual([
      undefined,
      "objects",
      "files",
      "files",
    ]);
  });
});

test("a refusal is the guard's in its own name, of files or of objects that are left beside them", () => {
  const by = (name: string): string =>
    `pods "p" is forbidden: ValidatingAdmissionPolicy '${name}' with binding '${name}' denied request: level L1: no`;
  const [files, objects] = ["gpve-l1-pods.static.k8s.io", "gpve-l1-pods.gpve.io"];
  const seen = (version: string) =>
    [files, objects, "mine"].map((name) => isGuardsRefusal(by(name), version));
  expect(seen("1.36.4")).toEqual([true, true, false]);
  // Files are read by later versions only: there an object of that name is a tenant's.
  expect(seen("1.35.6")).toEqual([false, true, false]);
  expect(isGuardsRefusal(`x ${by(objects)}`, "1.35.6")).toBe(false);
});
