import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../config/config-text.ts";
import type { ConfigDocument } from "../config/document.ts";
import { applyPatches, type PatchedConfig } from "./apply-patches.ts";

function patched(config: string, ...patches: readonly string[]): PatchedConfig {
  return applyPatches(
    parseConfig(config, "config"),
    patches.map((text, index) => ({ source: `patch ${index + 1}`, text })),
    "generator",
  );
}

function result(config: string, ...patches: readonly string[]): readonly ConfigDocument[] {
  return patched(config, ...patches).documents;
}

describe("values", () => {
  test("override unless they are empty, and false counts", () => {
    expect(result("machine: {a: x, b: 1, c: true, d: y}", "machine: {a: z, b: 0, c: false, d: ''}")).toEqual([
      { machine: { a: "z", b: 1, c: false, d: "y" } },
    ]);
  });

  test("null changes nothing, and a value fills null", () => {
    expect(result("machine: {a: x, b: null}", "machine: {a: null, b: {c: 1}}")).toEqual([
      { machine: { a: "x", b: { c: 1 } } },
    ]);
  });

  test("maps merge, new keys come last, also empty ones", () => {
    const [document] = result(
      "machine: {sysctls: {a: '1'}}",
      "machine: {sysctls: {b: '2'}, env: {}, note: ''}",
    );
    expect(JSON.stringify(document)).toBe('{"machine":{"sysctls":{"a":"1","b":"2"},"env":{},"note":""}}');
  });

  test("of different shapes are refused with both origins", () => {
    expect(() => result("machine: {a: [1]}", "machine: {a: {b: 1}}")).toThrow(
      "machine.a is a list (from generator) and cannot be merged with a map (from patch 1)",
    );
    expect(() => result("machine: {a: [1]}", "machine: {a: 1}")).toThrow("with a single value");
  });
});

describe("lists", () => {
  test("append", () => {
    expect(
      result("machine: {certSANs: [a]}", "machine: {certSANs: [b]}", "machine: {certSANs: [a]}"),
    ).toEqual([{ machine: { certSANs: ["a", "b", "a"] } }]);
  });

  test("of subnets and the audit policy are replaced", () => {
    expect(
      result(
        "cluster: {network: {podSubnets: [a], serviceSubnets: [b]}, apiServer: {auditPolicy: {rules: [1], kind: Policy}}}",
        "cluster: {network: {podSubnets: [c], serviceSubnets: [d, e]}, apiServer: {auditPolicy: {rules: [2]}}}",
      ),
    ).toEqual([
      {
        cluster: {
          network: { podSubnets: ["c"], serviceSubnets: ["d", "e"] },
          apiServer: { auditPolicy: { rules: [2] } },
        },
      },
    ]);
    expect(
      result(
        "{apiVersion: v1alpha1, kind: KubeNetworkConfig, podSubnets: [a]}",
        "{apiVersion: v1alpha1, kind: KubeNetworkConfig, podSubnets: [b]}",
      ),
    ).toMatchObject([{ podSubnets: ["b"] }]);
    // The same key elsewhere is a list like any other.
    expect(result("machine: {podSubnets: [a]}", "machine: {podSubnets: [b]}")).toEqual([
      { machine: { podSubnets: ["a", "b"] } },
    ]);
  });

  test("of interfaces merge by name or selector, their VLANs by id", () => {
    const config = `machine:
  network:
    interfaces:
      - interface: eth0
        addresses: [10.0.0.1/24]
        vlans: [{vlanId: 5, mtu: 1400}]
      - deviceSelector: {hardwareAddr: "bc:24:11:00:00:01"}
        dhcp: true
`;
    const patch = `machine:
  network:
    interfaces:
      - interface: eth0
        addresses: [10.0.0.2/24]
        vlans: [{vlanId: 5, dhcp: true}, {vlanId: 6}]
      - deviceSelector: {hardwareAddr: "bc:24:11:00:00:01"}
        dhcp: false
      - deviceSelector: {hardwareAddr: "bc:24:11:00:00:02"}
      - mtu: 9000
`;
    expect(result(config, patch)).toEqual([
      {
        machine: {
          network: {
            interfaces: [
              {
                interface: "eth0",
                addresses: ["10.0.0.1/24", "10.0.0.2/24"],
                vlans: [{ vlanId: 5, mtu: 1400, dhcp: true }, { vlanId: 6 }],
              },
              { deviceSelector: { hardwareAddr: "bc:24:11:00:00:01" }, dhcp: false },
              { deviceSelector: { hardwareAddr: "bc:24:11:00:00:02" } },
              { mtu: 9000 },
            ],
          },
        },
      },
    ]);
  });

  test("of admission plugins merge by name", () => {
    expect(
      result(
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: {enforce: baseline}}}]}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {defaults: {enforce: restricted}}}, {name: Other}]}}",
      ),
    ).toEqual([
      {
        cluster: {
          apiServer: {
            admissionControl: [
              { name: "PodSecurity", configuration: { defaults: { enforce: "restricted" } } },
              { name: "Other" },
            ],
          },
        },
      },
    ]);
  });

  test("of PodSecurity's exemptions never name anything twice, with which the API server would not start", () => {
    const configuration = (namespaces: string, users: string): string =>
      `configuration: {exemptions: {namespaces: [${namespaces}], usernames: [${users}]}}`;
    const merged = {
      configuration: { exemptions: { namespaces: ["kube-system", "rook"], usernames: ["a", "b", "c"] } },
    };
    const inCluster = (text: string): string =>
      `cluster: {apiServer: {admissionControl: [{name: PodSecurity, ${text}}]}}`;
    const asDocument = (text: string): string =>
      `{apiVersion: v1alpha1, kind: KubeAdmissionControlConfig, name: PodSecurity, ${text}}`;
    const [left, right] = [
      configuration("kube-system", "a, b"),
      configuration("kube-system, rook", "c, a, b"),
    ];
    expect(result(inCluster(left), inCluster(right))).toEqual([
      { cluster: { apiServer: { admissionControl: [{ name: "PodSecurity", ...merged }] } } },
    ]);
    expect(result(asDocument(left), asDocument(right))).toMatchObject([merged]);
  });
});

describe("documents", () => {
  const config = `machine: {type: worker}
---
{apiVersion: v1alpha1, kind: VolumeConfig, name: EPHEMERAL, mount: {secure: true}}
---
{apiVersion: v1alpha1, kind: HostnameConfig, auto: stable}
`;

  test("are found by kind and name; new ones come last", () => {
    const patch = `{apiVersion: v1alpha1, kind: VolumeConfig, name: ETCD}
---
{apiVersion: v1alpha1, kind: VolumeConfig, name: EPHEMERAL, mount: {secure: false}}
---
{apiVersion: v1alpha1, kind: VolumeConfig, name: ETCD, provisioning: {minSize: 1GiB}}
---
machine: {type: controlplane}
`;
    expect(result(config, patch)).toEqual([
      { machine: { type: "controlplane" } },
      { apiVersion: "v1alpha1", kind: "VolumeConfig", name: "EPHEMERAL", mount: { secure: false } },
      { apiVersion: "v1alpha1", kind: "HostnameConfig", auto: "stable" },
      { apiVersion: "v1alpha1", kind: "VolumeConfig", name: "ETCD", provisioning: { minSize: "1GiB" } },
    ]);
  });

  test("are deleted whole, but never the first", () => {
    expect(result(config, "{apiVersion: v1alpha1, kind: HostnameConfig, $patch: delete}")).toHaveLength(2);
    expect(() => result(config, "$patch: delete")).toThrow(
      "patch 1 deletes the v1alpha1 document, which must stay",
    );
  });

  test("that a machine does not have have nothing to delete, as in Talos 1.14", () => {
    const flannel = "apiVersion: v1alpha1, kind: KubeFlannelCNIConfig";
    expect(result(config, `{${flannel}, $patch: delete}`)).toHaveLength(3);
    expect(result(config, `{${flannel}, extraArgs: {$patch: delete}}`)).toHaveLength(3);
  });

  test("with half a name, or that are no maps, are refused", () => {
    expect(() => result(config, "{kind: HostnameConfig}")).toThrow("only one of apiVersion and kind");
    expect(() => result(config, "just text")).toThrow("has a document that is no map");
    expect(() => result(config, "a: 1\n---\n- b")).toThrow("has a document that is no map");
  });

  test("that are nothing but a name are added too", () => {
    expect(result(config, "{apiVersion: v1alpha1, kind: DHCPv4Config, name: eth0}").at(-1)).toEqual({
      apiVersion: "v1alpha1",
      kind: "DHCPv4Config",
      name: "eth0",
    });
  });

  test("of another API version are others", () => {
    expect(result(config, "{apiVersion: v2, kind: HostnameConfig}")).toHaveLength(4);
  });
});

describe("$patch: delete", () => {
  const config =
    "machine: {network: {hostname: a, nameservers: [b]}, files: [{path: /a, op: x}, {path: /b}]}";

  test("takes away a key, a list and an item of a list", () => {
    expect(
      result(
        config,
        "machine: {network: {nameservers: {$patch: delete}}, files: [{path: /a, $patch: delete}, {path: /c}]}",
      ),
    ).toEqual([{ machine: { network: { hostname: "a" }, files: [{ path: "/b" }, { path: "/c" }] } }]);
  });

  test("works before what the same patch adds", () => {
    expect(
      result(
        config,
        "machine: {network: {nameservers: {$patch: delete}}}\n---\nmachine: {network: {nameservers: [c]}}",
      ),
    ).toMatchObject([{ machine: { network: { nameservers: ["c"] } } }]);
  });

  test("leaves out lists and free maps that it empties, but not sections", () => {
    const emptied = `machine:
  network: {hostname: a}
  nodeLabels: {x: ""}
  files: [{path: /a}]
`;
    const patch = `machine:
  network: {hostname: {$patch: delete}}
  nodeLabels: {x: {$patch: delete}}
  files: [{path: /a, $patch: delete}]
`;
    expect(result(emptied, patch)).toEqual([{ machine: { network: {} } }]);
  });

  test("makes room for an item of the same name", () => {
    expect(
      result(
        "machine: {network: {interfaces: [{interface: eth0, dhcp: true}, {interface: eth1}]}}",
        "machine: {network: {interfaces: [{interface: eth0, $patch: delete}, {interface: eth1, mtu: 9}, {interface: eth0, dummy: true}]}}",
      ),
    ).toEqual([
      {
        machine: {
          network: {
            interfaces: [
              { interface: "eth1", mtu: 9 },
              { interface: "eth0", dummy: true },
            ],
          },
        },
      },
    ]);
  });

  test("of a field that is not set changes nothing", () => {
    expect(result(config, "machine: {network: {kubespan: {$patch: delete}}}")).toEqual(result(config));
    const link = "{apiVersion: v1alpha1, kind: LinkConfig, name: eth0, mtu: 9000}";
    const unset = "{apiVersion: v1alpha1, kind: LinkConfig, name: eth0, routes: {$patch: delete}}";
    expect(result(`${config}\n---\n${link}`, unset)).toEqual(result(`${config}\n---\n${link}`));
  });

  test("of what is not there is an error that names the place", () => {
    expect(() => result(config, "machine: {network: {nothing: {$patch: delete}}}")).toThrow(
      "patch 1 deletes v1alpha1 machine network nothing, which is not there",
    );
    expect(() => result(config, "cluster: {proxy: {mode: {$patch: delete}}}")).toThrow("which is not there");
    expect(() => result(config, "machine: {files: [{path: /z, $patch: delete}]}")).toThrow(
      "which is not there",
    );
    expect(() => result(config, "machine: {network: [{path: /z, $patch: delete}]}")).toThrow(
      "which is not there",
    );
  });

  test("in a list must say which item, and reaches no deeper", () => {
    expect(() => result(config, "machine: {files: [{$patch: delete}]}")).toThrow("which item is meant");
    expect(() => result(config, "machine: {files: [{path: /a, op: {$patch: delete}}]}")).toThrow(
      "is not possible",
    );
  });
});

describe("JSON patches", () => {
  const single = "machine: {type: worker, list: [a, c], map: {k/1: 1}}";

  test("work on a configuration of one document", () => {
    const operations = `[
  {op: test, path: /machine/type, value: worker},
  {op: replace, path: /machine/type, value: controlplane},
  {op: add, path: /machine/list/1, value: b},
  {op: add, path: /machine/list/-, value: d},
  {op: copy, from: /machine/list/0, path: /machine/first},
  {op: move, from: /machine/map/k~11, path: /machine/moved},
  {op: remove, path: /machine/list/2}]`;
    expect(result(single, operations)).toEqual([
      { machine: { type: "controlplane", list: ["a", "b", "d"], map: {}, first: "a", moved: 1 } },
    ]);
  });

  test.each([
    ["[{op: test, path: /machine/type, value: x}]", "/machine/type has another value"],
    ["[{op: remove, path: /machine/none}]", "there is no /machine/none"],
    ["[{op: replace, path: /none, value: 1}]", "there is no /none"],
    ["[{op: add, path: /machine/list/9, value: 1}]", "nothing can be put at"],
    ["[{op: add, path: /machine/type/x, value: 1}]", "nothing can be put at"],
    ["[{op: add, path: machine, value: 1}]", "does not begin with /"],
    ["[{op: add, path: /machine/x}]", "it has no value"],
    ["[{op: frob, path: /machine/x}]", "op is none of"],
    ["[1]", "it is no map"],
  ])("%s is refused", (patch, message) => {
    expect(() => result(single, patch)).toThrow(message);
  });

  test("are refused for several documents, as Talos refuses them", () => {
    expect(() => result(`${single}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig}`, "[]")).toThrow(
      "Talos does not take for configurations of several documents",
    );
  });
});

describe("origins", () => {
  test("follow each value through merges, appends and deletions", () => {
    const { originOf } = patched(
      "machine: {type: worker, files: [{path: /a}, {path: /b}]}",
      "machine: {files: [{path: /c}]}\n---\n{apiVersion: v1alpha1, kind: VolumeConfig, name: ETCD, mount: {secure: true}}",
      "machine: {type: controlplane, files: [{path: /a, $patch: delete}]}",
    );
    expect(originOf("v1alpha1", ["machine", "type"])).toBe("patch 2");
    expect(originOf("v1alpha1", ["machine", "files", "0", "path"])).toBe("generator");
    expect(originOf("v1alpha1", ["machine", "files", "1", "path"])).toBe("patch 1");
    expect(originOf("VolumeConfig/ETCD", ["mount", "secure"])).toBe("patch 1");
    expect(originOf("v1alpha1", ["machine", "files", "2"])).toBeUndefined();
    expect(originOf("KubeletConfig", [])).toBeUndefined();
  });
});

test("a patch changes neither the configuration nor itself, and merging keeps what it does not name", () => {
  const leaf = fc.oneof(fc.string(), fc.integer({ min: 1 }), fc.boolean());
  const tree = fc.dictionary(
    fc.constantFrom("a", "b", "c"),
    fc.dictionary(fc.constantFrom("x", "y", "z"), leaf),
  );
  fc.assert(
    fc.property(tree, tree, (left, right) => {
      const before = JSON.stringify(left);
      const { documents } = applyPatches(
        [{ machine: left }],
        [{ source: "p", text: JSON.stringify({ machine: right }) }],
        "base",
      );
      expect(JSON.stringify(left)).toBe(before);
      const merged = (documents[0]?.["machine"] ?? {}) as Record<string, Record<string, unknown>>;
      for (const [key, inner] of Object.entries(left)) {
        for (const [name, value] of Object.entries(inner)) {
          const given = right[key]?.[name];
          const wins = given !== undefined && given !== "";
          expect(merged[key]?.[name]).toBe(wins ? given : value);
        }
      }
    }),
  );
});
