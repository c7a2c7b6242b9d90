import { isAppError } from "@gpve/contracts/errors.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseAgentConfiguration, parseServerConfiguration, serverEndpoints } from "./configuration.ts";

const server = (body: string): string => `apiVersion: gpve.io/v1\nkind: ServerConfiguration\n${body}`;
const agentHead =
  "apiVersion: gpve.io/v1\nkind: AgentConfiguration\nagent: { nodeName: n1, address: 10.0.0.1 }\n";
const problemsOf = (work: () => unknown): string[] => {
  try {
    work();
  } catch (err) {
    if (isAppError(err, "config.invalid")) return err.message.split("\n");
    throw err;
  }
  return [];
};
const serverProblems = (body: string, env = {}): string[] =>
  problemsOf(() => parseServerConfiguration(server(body), "s.yaml", env));

describe("the server's configuration file", () => {
  test("a short one is filled with defaults", () => {
    expect(parseServerConfiguration(server(""), "s.yaml", {})).toMatchObject({
      dataDir: "/var/lib/gpve",
      server: { address: "127.0.0.1", port: 8006, tlsCertFile: undefined },
      cluster: { name: "gpve", etcd: undefined },
      logging: { level: "info", format: "json", output: undefined },
      metrics: { enabled: false, path: "/metrics" },
    });
  });

  test("a full one is read to the last key", () => {
    const config = parseServerConfiguration(
      server(`
server: { address: "0.0.0.0", port: 8443, tlsCertFile: /a, tlsKeyFile: /b, names: [x] }
cluster:
  name: production
  etcd:
    endpoints: ["https://etcd-1:2379", "https://etcd-2:2379"]
    certFile: /c
    keyFile: /k
    caFile: /ca
scheduler:
  defaultStrategy: ha-spread
  plugins: { filter: [NodeResourcesFit], score: [LeastAllocated] }
storage: { defaults: { vmDisk: local-zfs, iso: local, backup: nfs } }
logging: { level: debug, format: text, output: /var/log/x }
metrics: { enabled: true, address: ":9090", path: /m }
tracing: { otlpEndpoint: "http://c:4318/v1/traces" }
`),
      "s.yaml",
      {},
    );
    expect(config.cluster.etcd?.endpoints).toEqual(["https://etcd-1:2379", "https://etcd-2:2379"]);
    expect(config.scheduler.plugins.score).toEqual(["LeastAllocated"]);
    expect(config.metrics).toEqual({ enabled: true, address: ":9090", path: "/m" });
  });

  test("a typo names file, line and key and what was meant", () => {
    expect(serverProblems("server:\n  adress: x\n  prot: 1\nlogging: { level: inof }")).toEqual([
      's.yaml:4: server.adress: unknown key, did you mean "address"?',
      's.yaml:5: server.prot: unknown key, did you mean "port"?',
      's.yaml:6: logging.level: must be one of debug, info, warn, error, did you mean "info"?',
    ]);
    expect(serverProblems("zzz: 1")).toEqual(["s.yaml:3: zzz: unknown key"]);
  });

  test("wrong types and values are told, all at once", () => {
    expect(
      serverProblems(
        "server: { port: 70000, address: 5 }\nmetrics: { enabled: maybe, address: x, path: m }\ncluster: 7",
      ),
    ).toEqual([
      "s.yaml:3: server.address: must be a text, put it in quotes",
      "s.yaml:3: server.port: must be between 1 and 65535",
      "s.yaml:5: cluster: must be a map of keys",
      "s.yaml:4: metrics.enabled: must be true or false",
      's.yaml:4: metrics.address: must look like "address:port" or ":port"',
      "s.yaml:4: metrics.path: must start with a slash",
    ]);
    expect(serverProblems("server: { port: 1.5 }")).toEqual([
      "s.yaml:3: server.port: must be a whole number",
    ]);
    expect(serverProblems("server: { port: [1] }")).toEqual(["s.yaml:3: server.port: must be a number"]);
    expect(serverProblems("cluster: { etcd: { endpoints: 5 } }")).toEqual([
      "s.yaml:3: cluster.etcd.endpoints: must be a list",
    ]);
  });

  test("broken YAML, doubled keys and a wrong kind are told with their line", () => {
    expect(serverProblems("server: {")[0]).toMatch(/^s\.yaml:\d+: /);
    expect(serverProblems("server: {}\nserver: {}")[0]).toMatch(/^s\.yaml:\d+: .*unique/i);
    expect(problemsOf(() => parseServerConfiguration("kind: AgentConfiguration", "s.yaml", {}))).toEqual([
      "s.yaml:1: apiVersion: is required and must be a text",
      "s.yaml:1: kind: must be one of ServerConfiguration",
    ]);
    expect(problemsOf(() => parseServerConfiguration("", "s.yaml", {}))).toHaveLength(2);
  });

  test("the environment is filled in, also for numbers and flags, and its absence is told", () => {
    const body = 'dataDir: ${HOME_DIR}/gpve\nserver: { port: "${PORT}" }\nmetrics: { enabled: "${M:-true}" }';
    expect(parseServerConfiguration(server(body), "s.yaml", { HOME_DIR: "/h", PORT: "99" })).toMatchObject({
      dataDir: "/h/gpve",
      server: { port: 99 },
      metrics: { enabled: true },
    });
    expect(serverProblems("dataDir: ${NOPE}")).toEqual([
      "s.yaml:3: dataDir: environment variable NOPE is not set",
    ]);
  });

  test("no text whatsoever makes it fail in another way", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(problemsOf(() => parseServerConfiguration(text, "f", {}))).toBeInstanceOf(Array);
      }),
    );
  });
});

describe("the agent's configuration file", () => {
  test("is read with its plugins and bridges", () => {
    const config = parseAgentConfiguration(
      `${agentHead}server: { endpoint: "https://s:8443", endpoints: ["https://s:8443", "https://t:1"], token: "\${T}" }
storage:
  plugins:
    - { name: z, type: zfs, config: { pool: "\${P}", deep: { list: [1, two] }, none: null } }
network: { bridges: [{ name: vmbr1, vlanAware: true, ports: [eth1] }] }
resources: { reservedCPU: "1", overcommit: { cpu: 4.0 } }`,
      "a.yaml",
      { T: "secret", P: "rpool" },
    );
    expect(config.server.token).toBe("secret");
    expect(serverEndpoints(config)).toEqual(["https://s:8443", "https://t:1"]);
    expect(config.storage.plugins[0]?.config).toEqual({
      pool: "rpool",
      deep: { list: [1, "two"] },
      none: null,
    });
    expect(config.network.bridges[0]).toMatchObject({ vlanAware: true, ports: ["eth1"] });
    expect(config.resources.overcommit).toEqual({ cpu: 4, memory: 1 });
    expect(config.agent.port).toBe(8444);
  });

  test("names and addresses are checked", () => {
    const bad = `apiVersion: gpve.io/v1\nkind: AgentConfiguration\nagent: { nodeName: a.b }\nserver: { endpoint: "s:1" }`;
    expect(problemsOf(() => parseAgentConfiguration(bad, "a.yaml", {}))).toEqual([
      "a.yaml:3: agent.nodeName: must be a host name without dots",
      "a.yaml:3: agent.address: is required and must be a text",
      'a.yaml:4: server.endpoint: must look like "https://host:port"',
    ]);
    expect(serverEndpoints(parseAgentConfiguration(agentHead, "a.yaml", {}))).toEqual([]);
  });
});
