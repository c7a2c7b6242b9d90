// Every key of the configuration files has an effect: it is changed, and what server or agent are made of must change. A
// key that nothing reads fails here, and so does a new one without a line in the tables.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import {
  agentKeys,
  parseAgentConfiguration,
  parseServerConfiguration,
  serverKeys,
} from "@gpve/kit/config/configuration.ts";
import { parseDocument } from "yaml";
import { describe, expect, test } from "vitest";
import { agentSettings } from "./agent-settings.ts";
import { serverSettings } from "./server-settings.ts";

const ROOT = resolve(import.meta.dirname, "../../../..");

/** Checked when the file is read, and there is one value only. */
const FIXED = ["apiVersion", "kind"];

const common = {
  dataDir: ["/data", "/other"],
  "logging.level": ["info", "debug"],
  "logging.format": ["json", "text"],
  "logging.output": ["/log", "/other"],
  "metrics.enabled": [true, false],
  "metrics.address": [":9090", ":9091"],
  "metrics.path": ["/metrics", "/other"],
  "tracing.otlpEndpoint": ["http://a:4318", "http://b:4318"],
  "tracing.sampleRatio": [1, 0.5],
} as const;

/** Key -> its value, and another one. */
const serverValues: Readonly<Record<string, readonly [unknown, unknown]>> = {
  ...common,
  "server.address": ["0.0.0.0", "::"],
  "server.port": [8443, 8006],
  "server.spicePort": [3128, 3129],
  "server.tlsCertFile": ["/a.crt", "/b.crt"],
  "server.tlsKeyFile": ["/a.key", "/b.key"],
  "server.names": [["a"], ["b"]],
  "server.trustedProxies": [["192.0.2.1"], ["192.0.2.2"]],
  "cluster.name": ["one", "two"],
  "cluster.etcd.endpoints": [["https://a:2379"], ["https://b:2379"]],
  "cluster.etcd.embedded": [undefined, true],
  "cluster.etcd.address": ["192.0.2.1", "192.0.2.2"],
  "cluster.etcd.port": [2379, 12379],
  "cluster.etcd.peerPort": [2380, 12380],
  "cluster.etcd.certFile": ["/a", "/b"],
  "cluster.etcd.keyFile": ["/a", "/b"],
  "cluster.etcd.caFile": ["/a", "/b"],
  "cluster.etcd.username": ["a", "b"],
  "cluster.etcd.password": ["a", "b"],
  "cluster.sqlite.path": [undefined, "/store.db"],
  "scheduler.defaultStrategy": ["ha-spread", "utilization"],
  "scheduler.plugins.filter": [["NodeAffinity"], []],
  "scheduler.plugins.score": [["LeastAllocated"], []],
  "scheduler.expressions[].name": ["a", "b"],
  "scheduler.expressions[].filter": ["true", "false"],
  "scheduler.expressions[].says": ["a", "b"],
  "scheduler.expressions[].score": ["1", "2"],
  "scheduler.expressions[].weight": [1, 2],
  "scheduler.extenders[].name": ["a", "b"],
  "scheduler.extenders[].url": ["http://a", "http://b"],
  "scheduler.extenders[].timeoutMs": [1, 2],
  "scheduler.extenders[].weight": [1, 2],
  "scheduler.extenders[].onFailure": ["refuse", "ignore"],
  "scheduler.rebalance.mode": ["off", "plan"],
  "scheduler.rebalance.intervalSeconds": [60, 30],
  "scheduler.rebalance.threshold": [30, 20],
  "scheduler.rebalance.margin": [10, 20],
  "scheduler.rebalance.holdRounds": [3, 4],
  "scheduler.rebalance.maxMoves": [5, 6],
  "scheduler.rebalance.coolDownSeconds": [1, 2],
  "ha.fenceCommand": [["/fence"], []],
  "storage.defaults.vmDisk": ["a", "b"],
  "storage.defaults.iso": ["a", "b"],
  "storage.defaults.backup": ["a", "b"],
};

const agentValues: Readonly<Record<string, readonly [unknown, unknown]>> = {
  ...common,
  "agent.nodeName": ["n1", "n2"],
  "agent.address": ["192.0.2.1", "192.0.2.2"],
  "agent.port": [8444, 8445],
  "server.endpoint": ["https://a:1", "https://b:1"],
  "server.endpoints": [["https://c:1"], ["https://d:1"]],
  "server.token": ["a", "b"],
  "server.caFile": ["/a", "/b"],
  "qemu.binaryPath": ["/a", "/b"],
  "qemu.defaultMachine": ["q35", "pc"],
  "qemu.defaultCPU": ["host", "max"],
  "storage.plugins[].name": ["thin", "other"],
  "storage.plugins[].type": ["lvm", "lvmthin"],
  "storage.plugins[].config": [
    { vgName: "vg", thinPool: "a" },
    { vgName: "vg", thinPool: "b" },
  ],
  "network.defaultBridge": ["vmbr0", "vmbr1"],
  "network.leaseFile": ["/a", "/b"],
  "network.bridges[].name": ["vmbr0", "vmbr1"],
  "network.bridges[].address": ["192.0.2.1/24", "192.0.2.2/24"],
  "network.bridges[].vlanAware": [false, true],
  "network.bridges[].ports": [["eth0"], []],
  "ha.watchdog": ["/dev/watchdog", "none"],
  "resources.reservedCPU": ["1", "2"],
  "resources.reservedMemory": ["1Gi", "2Gi"],
  "resources.overcommit.cpu": [1, 2],
  "resources.overcommit.memory": [1, 2],
};
/** Two words for the same: nothing else changes. */
const SAME = new Set(["storage.plugins[].type"]);

function fileWith(
  kind: string,
  values: Readonly<Record<string, readonly [unknown, unknown]>>,
  changed?: string,
): string {
  const document = parseDocument(`apiVersion: gpve.io/v1\nkind: ${kind}\n`);
  for (const [key, [usual, other]] of Object.entries(values)) {
    const value = key === changed ? other : usual;
    const path = key.split(".").flatMap((part) => (part.endsWith("[]") ? [part.slice(0, -2), 0] : [part]));
    if (value === undefined) continue;
    for (let length = 1; length < path.length; length++)
      if (!document.hasIn(path.slice(0, length)))
        document.setIn(path.slice(0, length), document.createNode(path[length] === 0 ? [] : {}));
    document.setIn(path, document.createNode(value));
  }
  return String(document);
}

/** Of an etcd that gpve runs itself. */
const OWN_ETCD = ["embedded", "address", "port", "peerPort"].map((key) => `cluster.etcd.${key}`);

/** `like`: as for the change of that key, without it. */
const server = (changed?: string, like = changed) => {
  // The one store shuts the other out.
  const values =
    like?.startsWith("cluster.sqlite") === true
      ? withoutEtcd(serverValues)
      : OWN_ETCD.includes(like ?? "")
        ? withOwnEtcd(serverValues, like !== "cluster.etcd.embedded")
        : serverValues;
  const text = fileWith("ServerConfiguration", values, changed);
  return serverSettings(parseServerConfiguration(text, "s.yaml", {}));
};
const agent = (changed?: string, _like?: string) =>
  agentSettings(parseAgentConfiguration(fileWith("AgentConfiguration", agentValues, changed), "a.yaml", {}));

function withoutEtcd(values: typeof serverValues): typeof serverValues {
  return Object.fromEntries(Object.entries(values).filter(([key]) => !key.startsWith("cluster.etcd")));
}

function withOwnEtcd(values: typeof serverValues, embedded: boolean): typeof serverValues {
  if (!embedded) return { ...withoutEtcd(values), "cluster.etcd.embedded": [undefined, true] };
  const own = Object.entries(values).filter(([key]) => OWN_ETCD.includes(key));
  return { ...withoutEtcd(values), ...Object.fromEntries(own), "cluster.etcd.embedded": [true, true] };
}

describe.each([
  ["server", serverKeys, serverValues, server],
  ["agent", agentKeys, agentValues, agent],
] as const)("the %s's configuration file", (_name, keys, values, settings) => {
  test("has a line here for every key, and for none that does not exist", () => {
    expect(Object.keys(values).toSorted()).toEqual(keys.filter((key) => !FIXED.includes(key)).toSorted());
  });

  test.each(keys.filter((key) => !FIXED.includes(key)))("%s has an effect", (key) => {
    if (SAME.has(key)) expect(settings(key)).toEqual(settings(undefined, key));
    else expect(settings(key)).not.toEqual(settings(undefined, key));
  });

  test("is described key by key", () => {
    const page = readFileSync(resolve(ROOT, "docs/reference/configuration.md"), "utf8");
    const isNamed = (key: string): boolean => page.includes(`\`${key}\``);
    expect(keys.filter((key) => !isNamed(key))).toEqual([]);
  });
});

describe("keys that cannot be as they are", () => {
  const serverWith = (body: string) =>
    serverSettings(
      parseServerConfiguration(`apiVersion: gpve.io/v1\nkind: ServerConfiguration\n${body}`, "s", {}),
    );
  const agentWith = (body: string) =>
    agentSettings(
      parseAgentConfiguration(
        `apiVersion: gpve.io/v1\nkind: AgentConfiguration\nagent: { nodeName: n1, address: 192.0.2.1 }\n${body}`,
        "a",
        {},
      ),
    );

  test("are refused by name, with the reason", () => {
    expect(() => serverWith("server: { tlsCertFile: /a }")).toThrow("server.tlsKeyFile is missing");
    expect(() => serverWith("server: { tlsKeyFile: /a }")).toThrow("server.tlsCertFile is missing");
    expect(() =>
      serverWith('cluster: { etcd: { endpoints: ["https://a:1"] }, sqlite: { path: /x } }'),
    ).toThrow("cluster.etcd and cluster.sqlite are two stores");
    expect(() => serverWith("cluster: { etcd: {} }")).toThrow("cluster.etcd.endpoints is missing");
    expect(() =>
      serverWith('cluster: { etcd: { embedded: true, endpoints: ["https://a:1"], caFile: /a } }'),
    ).toThrow("cluster.etcd.endpoints, cluster.etcd.caFile is of an etcd that others run");
    expect(() => agentWith("qemu: { defaultMachine: pdp11 }")).toThrow(/^qemu.defaultMachine: "pdp11"/);
    expect(() => agentWith("qemu: { defaultCPU: z80 }")).toThrow(/^qemu.defaultCPU: "z80"/);
    const plugin = (text: string) => () => agentWith(`storage: { plugins: [${text}] }`);
    expect(plugin("{ name: a, type: zfs, config: { pool: tank } }")).toThrow(
      /^storage.plugins\[0\].type: 'zfs' \(storage 'a'\) is a type that this version has no plugin for; it has dir/,
    );
    expect(plugin("{ name: a, type: lvmthin, config: { vgname: vg } }")).toThrow(
      /^storage.plugins\[0\].config: storage 'a': .*thinpool/s,
    );
    expect(plugin("{ name: a, type: dir, config: [1] }")).toThrow("must be a map of settings");
    expect(plugin("{ name: a, type: dir, config: { path: [1] } }")).toThrow("config.path: must be a text");
    expect(plugin("{ name: a, type: dir }")).toThrow(/path/);
    expect(
      plugin("{ name: a, type: dir, config: { path: /a } }, { name: a, type: dir, config: { path: /b } }"),
    ).toThrow("'a' is declared twice");
  });
});

describe("the files that the platform was drawn with", () => {
  const drawn = (name: string): string =>
    readFileSync(resolve(import.meta.dirname, "__fixtures__", `${name}.yaml`), "utf8");

  test("a server takes every key of its own", () => {
    expect(serverSettings(parseServerConfiguration(drawn("server"), "server.yaml", {}))).toEqual({
      dataDir: "/var/lib/gpve",
      store: {
        type: "etcd",
        endpoints: ["https://etcd-1:2379", "https://etcd-2:2379", "https://etcd-3:2379"],
        certFile: "/etc/gpve/pki/etcd-client.crt",
        keyFile: "/etc/gpve/pki/etcd-client.key",
        caFile: "/etc/gpve/pki/etcd-ca.crt",
      },
      observability: {
        level: "info",
        format: "json",
        output: "/var/log/gpve/server.log",
        otlpEndpoint: undefined,
        sampleRatio: 1,
        metrics: { address: ":9090", path: "/metrics" },
      },
      server: {
        host: "0.0.0.0",
        port: 8443,
        spicePort: 3128,
        clusterName: "production-cluster",
        names: [],
        trustedProxies: [],
        certificateFiles: { certFile: "/etc/gpve/pki/server.crt", keyFile: "/etc/gpve/pki/server.key" },
        storageDefaults: { vmDisk: "local-zfs", iso: "local", backup: "nfs-backup" },
        scheduler: {
          defaultStrategy: "ha-spread",
          plugins: {
            filter: ["NodeResourcesFit", "NodeAffinity", "TaintToleration"],
            score: ["BalancedAllocation", "LeastAllocated"],
          },
          expressions: [],
          extenders: [],
          rebalance: expect.objectContaining({ mode: "off" }) as unknown,
        },
      },
    });
  });

  test("an agent refuses the storage that it has no plugin for, by name, and takes everything else", () => {
    const env = { GPVE_BOOTSTRAP_TOKEN: "secret" };
    const read = (text: string) => agentSettings(parseAgentConfiguration(text, "agent.yaml", env));
    expect(() => read(drawn("agent"))).toThrow(
      "storage.plugins[0].type: 'zfs' (storage 'local-zfs') is a type that this version has no plugin for",
    );
    const without = parseDocument(drawn("agent"));
    without.deleteIn(["storage", "plugins", 0]);
    expect(read(String(without))).toMatchObject({
      node: { nodeName: "node-01", address: "192.168.1.101", port: 8444 },
      join: {
        endpoints: ["https://gpve-server:8443"],
        token: "secret",
        caFile: "/etc/gpve/pki/ca.crt",
      },
      observability: { level: "info", format: "json", output: "/var/log/gpve/agent.log" },
      agent: {
        qemuBinary: "/usr/bin/qemu-system-x86_64",
        reserve: { cpu: 1, memoryBytes: 2 * 1024 ** 3, overcommit: { cpu: 4, memory: 1.5 } },
        declared: {
          defaults: { machine: "q35", cpu: "host", bridge: "vmbr0" },
          storages: [
            { storage: "local-lvm", type: "lvmthin", options: { vgname: "gpve-vg", thinpool: "data" } },
          ],
          bridges: [
            { name: "vmbr0", address: "192.168.1.1/24", vlanAware: false, ports: ["eth0"] },
            { name: "vmbr1", address: undefined, vlanAware: true, ports: ["eth1"] },
          ],
        },
      },
    });
  });
});
