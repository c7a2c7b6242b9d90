// The two configuration files: /etc/gpve/server.yaml and /etc/gpve/agent.yaml (apiVersion gpve.io/v1).
import { anything, choice, flag, list, number, optional, port, record, text, withDefault } from "./fields.ts";
import { parseConfig, type Environment } from "./parse.ts";

const DEFAULT_DATA_DIR = "/var/lib/gpve";

const nodeName = text({
  pattern: /^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/,
  says: "must be a host name without dots",
});
const url = text({ pattern: /^https:\/\/[^/\s]+\/?$/, says: 'must look like "https://host:port"' });
/** ":9090", "127.0.0.1:9090", "[::1]:9090" */
const listenAddress = text({ pattern: /^.*:\d{1,5}$/, says: 'must look like "address:port" or ":port"' });

const logging = record({
  level: withDefault(choice("debug", "info", "warn", "error"), "info"),
  format: withDefault(choice("json", "text"), "json"),
  /** A file; absent = standard output. */
  output: optional(text()),
});

const metrics = record({
  enabled: withDefault(flag, false),
  address: withDefault(listenAddress, "127.0.0.1:9090"),
  path: withDefault(text({ pattern: /^\//, says: "must start with a slash" }), "/metrics"),
});

const tracing = record({
  /** OTLP over HTTP, "http://collector:4318/v1/traces". */
  otlpEndpoint: optional(text({ pattern: /^https?:\/\//, says: "must be an http or https address" })),
  /** Share of the requests that begin here and are traced; who calls with a trace of his own decides for himself. */
  sampleRatio: withDefault(number({ min: 0, max: 1 }), 1),
});

const etcd = record({
  endpoints: withDefault(
    list(text({ pattern: /^https?:\/\/[^/\s]+\/?$/, says: 'must look like "https://host:2379"' })),
    [],
  ),
  /** gpve runs etcd itself, on the first three servers; instead of endpoints. */
  embedded: withDefault(flag, false),
  /** embedded: where the other servers reach this member. Default: where the server listens. */
  address: optional(text()),
  port: withDefault(port, 2379),
  peerPort: withDefault(port, 2380),
  certFile: optional(text()),
  keyFile: optional(text()),
  caFile: optional(text()),
  username: optional(text()),
  password: optional(text()),
});

const sqlite = record({
  /** Default: inside dataDir. */
  path: optional(text()),
});

const percent = number({ min: 0, max: 100 });

/** Names of strategies and plugins are checked where they are known. */
const schedulerFields = record({
  defaultStrategy: optional(text()),
  plugins: record({ filter: withDefault(list(text()), []), score: withDefault(list(text()), []) }),
  /** An operator's own filters and scores, in CEL. */
  expressions: withDefault(
    list(
      record({
        name: text(),
        /** True where the node may take it. */
        filter: optional(text()),
        /** What is said of nodes that may not. */
        says: optional(text()),
        /** 0 to 100. */
        score: optional(text()),
        weight: withDefault(number({ min: 0, max: 100 }), 1),
      }),
    ),
    [],
  ),
  /** Services that are asked over HTTP. */
  extenders: withDefault(
    list(
      record({
        name: text(),
        url: text({ pattern: /^https?:\/\//, says: "must be an http or https address" }),
        timeoutMs: withDefault(number({ min: 1, max: 60_000 }), 2_000),
        weight: withDefault(number({ min: 0, max: 100 }), 1),
        /** What becomes of placements while it does not answer. */
        onFailure: withDefault(choice("refuse", "ignore"), "refuse"),
      }),
    ),
    [],
  ),
  rebalance: record({
    /** plan: plans are made and wait for approval; auto: they are carried out. */
    mode: withDefault(choice("off", "plan", "auto"), "off"),
    intervalSeconds: withDefault(number({ min: 5, max: 86_400 }), 60),
    /** Percent between the fullest node and the emptiest. */
    threshold: withDefault(percent, 30),
    /** Percent by which a move must even nodes out. */
    margin: withDefault(percent, 10),
    /** Rounds in a row before nodes are evened out. */
    holdRounds: withDefault(number({ min: 1, max: 1_000 }), 3),
    maxMoves: withDefault(number({ min: 1, max: 100 }), 5),
    /** How long a guest that was moved stays. */
    coolDownSeconds: withDefault(number({ min: 0, max: 604_800 }), 3_600),
  }),
});

const serverFields = record({
  apiVersion: choice("gpve.io/v1"),
  kind: choice("ServerConfiguration"),
  dataDir: withDefault(text(), DEFAULT_DATA_DIR),
  server: record({
    address: withDefault(text(), "127.0.0.1"),
    port: withDefault(port, 8006),
    /** Where SPICE viewers come in. */
    spicePort: withDefault(port, 3128),
    tlsCertFile: optional(text()),
    tlsKeyFile: optional(text()),
    /** More host names and addresses for the certificate. */
    names: withDefault(list(text()), []),
    /** Addresses and networks of proxies whose X-Forwarded-For is honoured. */
    trustedProxies: withDefault(list(text()), []),
  }),
  cluster: record({
    name: withDefault(text(), "gpve"),
    etcd: optional(etcd),
    sqlite: optional(sqlite),
  }),
  scheduler: schedulerFields,
  storage: record({
    defaults: record({ vmDisk: optional(text()), iso: optional(text()), backup: optional(text()) }),
  }),
  ha: record({
    /** argv; a lost node's name is added. It must end well before the node's guests are recovered. */
    fenceCommand: withDefault(list(text()), []),
  }),
  logging,
  metrics,
  tracing,
});

const agentFields = record({
  apiVersion: choice("gpve.io/v1"),
  kind: choice("AgentConfiguration"),
  dataDir: withDefault(text(), DEFAULT_DATA_DIR),
  agent: record({
    nodeName,
    /** Where servers reach this agent, and where it listens. */
    address: text(),
    port: withDefault(port, 8444),
  }),
  server: record({
    endpoint: optional(url),
    /** Every server of the cluster; the agent reports to all of them. */
    endpoints: withDefault(list(url), []),
    /** One-time join token; not needed any more once the node has joined. */
    token: optional(text()),
    caFile: optional(text()),
  }),
  qemu: record({
    binaryPath: optional(text()),
    defaultMachine: optional(text()),
    defaultCPU: optional(text()),
  }),
  storage: record({
    plugins: withDefault(list(record({ name: text(), type: text(), config: optional(anything) })), []),
  }),
  network: record({
    defaultBridge: optional(text()),
    /** Of a dnsmasq on this machine that gives guests their addresses; VMs are then shown with them. */
    leaseFile: optional(text()),
    bridges: withDefault(
      list(
        record({
          name: text(),
          address: optional(text()),
          vlanAware: withDefault(flag, false),
          ports: withDefault(list(text()), []),
        }),
      ),
      [],
    ),
  }),
  ha: record({
    /** A device such as /dev/watchdog, file:PATH, or none; default: /dev/watchdog where there is one. */
    watchdog: optional(text()),
  }),
  resources: record({
    reservedCPU: optional(text()),
    reservedMemory: optional(text()),
    overcommit: record({
      cpu: withDefault(number({ min: 0.1, max: 1_000 }), 4),
      memory: withDefault(number({ min: 0.1, max: 100 }), 1),
    }),
  }),
  logging,
  metrics,
  tracing,
});

/** Every key of the files, "cluster.etcd.endpoints" or "storage.plugins[].name". */
export const serverKeys: readonly string[] = serverFields.keys ?? [];
export const agentKeys: readonly string[] = agentFields.keys ?? [];

export type SchedulerConfiguration = ReturnType<typeof schedulerFields>;
export type ServerConfiguration = ReturnType<typeof serverFields>;
export type AgentConfiguration = ReturnType<typeof agentFields>;

/** `env` fills in `${NAME}` and `${NAME:-default}`. Throws config.invalid with "file:line: key: text" lines. */
export function parseServerConfiguration(yaml: string, file: string, env: Environment): ServerConfiguration {
  return parseConfig(yaml, file, env, serverFields);
}

export function parseAgentConfiguration(yaml: string, file: string, env: Environment): AgentConfiguration {
  return parseConfig(yaml, file, env, agentFields);
}

/** All servers an agent is to report to, each once. */
export function serverEndpoints(config: AgentConfiguration): readonly string[] {
  const { endpoint, endpoints } = config.server;
  return [...new Set([...(endpoint === undefined ? [] : [endpoint]), ...endpoints])];
}
