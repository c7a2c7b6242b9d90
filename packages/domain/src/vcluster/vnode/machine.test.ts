import { describe, expect, test } from "vitest";
import {
  machineArguments,
  machineBounds,
  machineCpus,
  machineFacts,
  machineFiles,
  machinePlace,
  readMachinePods,
} from "./machine.ts";
import { containerdConfig, kubeletConfig } from "./vnode-files.ts";

const GIB = 2 ** 30;
const size = { cpus: 1.5, memoryBytes: 2 * GIB };
const files = { kernel: "/k", initrd: "/i", root: "/root.ext4", own: "/own.raw", settings: "/settings.raw" };
const argv = (accelerator: "kvm" | "tcg"): string[] =>
  machineArguments({
    name: "demo-worker-1",
    uuid: "11111111-2222-3333-4444-555555555555",
    mac: "02:67:70:76:65:00",
    size,
    accelerator,
    files,
    place: { socketPath: (name) => `/run/g/${name}` },
  });
const after = (args: readonly string[], word: string): string => args[args.indexOf(word) + 1] ?? "";

describe("the machine of a worker", () => {
  test("is a microvm where KVM runs it, and q35 where it is emulated", () => {
    expect([after(argv("kvm"), "-machine"), after(argv("kvm"), "-accel")]).toEqual([
      expect.stringMatching(/^microvm,/),
      "kvm",
    ]);
    expect([after(argv("tcg"), "-machine"), after(argv("tcg"), "-accel")]).toEqual([
      "q35",
      "tcg,thread=multi",
    ]);
    // Pods are told apart by its kernel: only where nobody outside can look into it does it go without defences.
    expect(after(argv("kvm"), "-append")).not.toContain("mitigations=off");
    expect(after(argv("tcg"), "-append")).toContain("mitigations=off");
  });

  test("has whole CPUs, its memory, three disks of which it writes one, and a line to its node", () => {
    const args = argv("tcg");
    expect([after(args, "-smp"), after(args, "-m")]).toEqual(["2", "2048M"]);
    const disks = args
      .filter((_arg, at) => args[at - 1] === "-blockdev")
      .map((text) => JSON.parse(text) as { file: { filename: string }; "read-only": boolean });
    expect(disks.map((disk) => [disk.file.filename, disk["read-only"]])).toEqual([
      ["/root.ext4", true],
      ["/own.raw", false],
      ["/settings.raw", true],
    ]);
    expect(args.join(" ")).toContain("path=/run/g/line,server=on");
    expect(machineCpus({ cpus: 0.25, memoryBytes: 0 })).toBe(1);
    expect(machineBounds(size).memoryBytes).toBeGreaterThan(size.memoryBytes + GIB);
  });

  test("offers Kubernetes all that it has, and of a CPU the part that is its own", () => {
    const place = machinePlace({
      name: "worker-1",
      address: "100.80.0.10",
      podNetwork: "10.244.0.0/24",
      pauseImage: "p",
    });
    const spec = { serviceCidr: "10.96.0.0/16", dnsDomain: "cluster.local" };
    const kubelet = JSON.parse(kubeletConfig(spec, place, size, machineFacts(size))) as Record<
      string,
      unknown
    >;
    expect(kubelet).toMatchObject({
      cgroupRoot: "/gpve",
      systemReserved: { cpu: "500m", memory: "0" },
      tlsPrivateKeyFile: "/run/gpve/kubelet-serving.key",
    });
    expect(containerdConfig(place, machineFacts(size))).toContain('BinaryName = "/opt/gpve/bin/runc"');
  });

  test("knows from the start the ways to the pods of every worker that there can be, but its own", () => {
    const { settings, routes } = machineFiles({
      name: "worker-2",
      address: "100.80.0.11",
      gateway: "100.80.0.1",
      machineId: "abc",
      podCidr: "10.244.0.0/22",
      slot: 1,
      addressOf: (slot) => `100.80.0.${10 + slot}`,
    });
    expect(settings).toBe("NAME=worker-2\nADDRESS=100.80.0.11\nGATEWAY=100.80.0.1\n");
    expect(routes).toBe("10.244.0.0/24 100.80.0.10\n10.244.2.0/24 100.80.0.12\n10.244.3.0/24 100.80.0.13\n");
  });

  test("says which pods it has; what is no pod is none", () => {
    expect(readMachinePods("pods default_web_1-2 kube-system_coredns-x.y_3\r")).toEqual([
      { namespace: "default", name: "web", uid: "1-2" },
      { namespace: "kube-system", name: "coredns-x.y", uid: "3" },
    ]);
    expect(readMachinePods("pods ../../etc_x_y a_b <b>_c_d")).toEqual([]);
    expect(readMachinePods("words kubelet hello")).toEqual([]);
    expect(readMachinePods("pods")).toEqual([]);
  });
});
