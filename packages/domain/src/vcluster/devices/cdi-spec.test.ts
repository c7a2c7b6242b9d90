import { describe, expect, test } from "vitest";
import { isDeviceKind, narrowedCdiSpec, readCdiSpec } from "./cdi-spec.ts";

const nodes = (...paths: readonly string[]) => ({ deviceNodes: paths.map((path) => ({ path })) });
/** As `nvidia-ctk cdi generate` writes it for two GPUs. */
const nvidia = {
  cdiVersion: "0.5.0",
  kind: "nvidia.com/gpu",
  devices: [
    { name: "0", containerEdits: nodes("/dev/nvidia0", "/dev/dri/renderD128") },
    { name: "1", containerEdits: nodes("/dev/nvidia1", "/dev/dri/renderD129") },
    { name: "GPU-4cf8db2d", containerEdits: nodes("/dev/dri/renderD128", "/dev/nvidia0") },
    { name: "all", containerEdits: nodes("/dev/nvidia0", "/dev/nvidia1") },
  ],
  containerEdits: {
    ...nodes("/dev/nvidiactl"),
    env: ["NVIDIA_VISIBLE_DEVICES=void"],
    hooks: [{ hookName: "createContainer", path: "/usr/bin/nvidia-cdi-hook" }],
    mounts: [
      { hostPath: "/usr/lib/libcuda.so.1", containerPath: "/usr/lib/libcuda.so.1" },
      { hostPath: "/run/nvidia-persistenced/socket", containerPath: "/run/nvidia-persistenced/socket" },
      { hostPath: "/runner/lib.so", containerPath: "/runner/lib.so" },
    ],
  },
};
const read = (json: unknown) => {
  const spec = readCdiSpec(json);
  if (spec === undefined) throw new Error("not read");
  return spec;
};

describe("a description of devices", () => {
  test("has each device once, whatever else it is called, and none that is several", () => {
    const spec = read(nvidia);
    expect([spec.kind, spec.devices]).toEqual([
      "nvidia.com/gpu",
      [
        { name: "0", nodes: ["/dev/dri/renderD128", "/dev/nvidia0"] },
        { name: "1", nodes: ["/dev/dri/renderD129", "/dev/nvidia1"] },
      ],
    ]);
  });

  test("has parts of a device that share its node as devices of their own", () => {
    const part = (name: string, cap: string) => ({ name, containerEdits: nodes("/dev/nvidia0", cap) });
    const mig = { kind: "nvidia.com/gpu", devices: [part("0:0", "/dev/cap1"), part("0:1", "/dev/cap2")] };
    expect(read(mig).devices.map(({ name }) => name)).toEqual(["0:0", "0:1"]);
  });

  test("goes by the host's nodes, and by names where there are none", () => {
    const hostPath = "/dev/zero";
    const seen = (path: string) => ({ deviceNodes: [{ path, hostPath }] });
    const same = [
      { name: "a", containerEdits: seen("/dev/a") },
      { name: "b", containerEdits: seen("/dev/b") },
    ];
    expect(read({ kind: "example.com/x", devices: same }).devices).toEqual([
      { name: "a", nodes: [hostPath] },
    ]);
    const containerEdits = { env: ["A=1"] };
    const plain = ["a", "b", "all"].map((name) => ({ name, containerEdits }));
    expect(read({ kind: "example.com/x", devices: plain }).devices).toHaveLength(2);
    expect(read({ kind: "example.com/x", devices: [{ name: "all", containerEdits }] }).devices).toHaveLength(
      1,
    );
  });

  test("becomes one of a worker's own devices, without what a worker does not see", () => {
    const own = narrowedCdiSpec(read(nvidia), ["1"]);
    expect(own["devices"]).toEqual([nvidia.devices[1]]);
    const { mounts } = own["containerEdits"] as { readonly mounts: readonly { hostPath: string }[] };
    expect(mounts.map(({ hostPath }) => hostPath)).toEqual(["/usr/lib/libcuda.so.1", "/runner/lib.so"]);
    const { containerEdits } = nvidia;
    expect(own).toMatchObject({
      cdiVersion: "0.5.0",
      kind: "nvidia.com/gpu",
      containerEdits: {
        deviceNodes: containerEdits.deviceNodes,
        env: containerEdits.env,
        hooks: containerEdits.hooks,
      },
    });
    const plain = { kind: "a.b/c", devices: [{ name: "0", containerEdits: { env: ["A=1"] } }] };
    expect(narrowedCdiSpec(read(plain), ["0"])).toEqual(plain);
  });

  test("is none of what is something else, or what no pod can ask for", () => {
    for (const json of [
      undefined,
      null,
      3,
      "x",
      [],
      {},
      { kind: 1 },
      { kind: "gpu" },
      { kind: "kubernetes.io/x" },
    ])
      expect(readCdiSpec(json)).toBeUndefined();
    const none = [1, {}, { name: "../x" }, { name: "0", containerEdits: [] }, { name: "1" }];
    const hidden = { mounts: [{ hostPath: "/run/x", containerPath: "/x" }] };
    const devices = [
      ...none,
      { name: "2", containerEdits: hidden },
      { name: "3", containerEdits: { env: ["A=1"] } },
    ];
    expect(read({ kind: "a.b/c", devices }).devices).toEqual([{ name: "3", nodes: [] }]);
    expect(
      ["nvidia.com/gpu", "requests.x/y", "A.b/c", "a.k8s.io/b", "amd.com/gpu"].filter(isDeviceKind),
    ).toEqual(["nvidia.com/gpu", "amd.com/gpu"]);
  });
});
