// What the launcher's commands are for and take; `gpve help` and `gpve COMMAND --help` print it.
import { DEFAULT_LISTEN } from "./commands/options.ts";

interface CommandHelp {
  readonly about: string;
  readonly options?: Readonly<Record<string, string>>;
}

const data = { "--data DIR": "data directory (/var/lib/gpve as root, ~/.local/share/gpve otherwise)" };

const commands: Readonly<Record<string, CommandHelp>> = {
  up: {
    about: "start server and agent on this machine",
    options: {
      ...data,
      "--listen ADDR:PORT": `where both APIs answer (${DEFAULT_LISTEN})`,
      "--detach": "return when it is ready",
      "--no-network": "do not make the NAT bridge vmbr0 for guests",
      "--nodes N": "a cluster of N nodes (3 to 9) on this machine, for trying it; needs root",
      "--metrics ADDR:PORT": "Prometheus metrics on their own listener (off)",
      "--node NAME": "this node's name (the machine's)",
      "--otlp URL": "send traces to this OpenTelemetry endpoint (off)",
    },
  },
  down: {
    about: "stop server and agent; guests run on",
    options: { ...data, "--guests": "shut guests and virtual clusters down too" },
  },
  status: {
    about: "what runs on a data directory",
    options: { ...data, "--output json": "for programs" },
  },
  lab: {
    about: "faults for the nodes of up --nodes: kill|freeze|thaw|cut|heal|restart NODE, status",
    options: {
      ...data,
      "kill NODE": "a loss of power: every process of the node is gone at once",
      "freeze NODE": "every process of the node stands still",
      "thaw NODE": "and goes on",
      "cut NODE": "the node has no network",
      "heal NODE": "the node is back: network, frozen processes, and what was killed is started again",
      "restart NODE": "stop its server and agent and start them again, as an upgrade does; guests run on",
      status: "what state the nodes are in",
      "--agent-only, --server-only": "kill, freeze, thaw or restart that part and nothing else of the node",
      "--output json": "status for programs",
    },
  },
  cluster: {
    about: "make the node of up the first of a cluster: init; the way back: undo",
    options: {
      ...data,
      "--name NAME": "the cluster's name (gpve)",
      "--address ADDR": "where other machines reach this one (its first address)",
      "--listen ADDR:PORT": "where both APIs answer from now on (0.0.0.0, the port as it was)",
      "--node NAME": "this node's name, where it does not run now",
      "--etcd-port, --etcd-peer-port, --agent-port PORT": "other ports than 2379, 2380, 8444",
      "--no-network": "as in up",
    },
  },
  ctl: { about: "gpvectl for the server on this machine" },
  server: {
    about: "run a server: --config FILE",
    options: {
      "--config FILE": "its configuration",
      "--data DIR": "another data directory than it names",
      "--node NAME": "the node it runs on (the machine's name)",
      "join --endpoint URL": "make this machine a further server; the token comes on standard input",
    },
  },
  agent: {
    about: "run an agent: --config FILE",
    options: { "--config FILE": "its configuration", "--data DIR": "another data directory than it names" },
  },
  fence: {
    about: "keep a node's lease on guests under HA; its agent starts it: --config FILE",
    options: {
      "--config FILE": "the agent's configuration",
      "--data DIR": "another data directory than it names",
    },
  },
  "vc-store": { about: "keep the records of a node's virtual clusters; its agent starts it: FOLDER" },
  "vc-proxy": { about: "let tenants in to a node's virtual clusters; its agent starts it: FOLDER PORT" },
  "vc-line": {
    about: "keep the lines between stores of virtual clusters and their standbys; a node's agent starts it",
  },
  "vc-balancer": {
    about: "lead workers to a replica that serves; a node's agent starts it: ADDRESS AUTHORITY",
  },
  "pve-commands": { about: "install DIR, remove DIR: qm, pvesh, pvesm, pveum, pvenode, vzdump as links" },
  test: {
    about: "prepare this machine and run every test",
    options: {
      "check, unit, integration": "that part alone",
      "--long": "and then what takes hours",
    },
  },
};

export function overview(): string {
  return [
    "gpve: virtual machines and Kubernetes clusters on Linux machines, as one cloud",
    "",
    "Usage: ./gpve COMMAND [options]",
    "",
    ...columns(Object.entries(commands).map(([name, { about }]) => [name, about])),
    "",
    "Start with: ./gpve up --detach        Options of a command: ./gpve COMMAND --help",
  ].join("\n");
}

/** undefined where the command has a help of its own, or is none. */
export function helpOf(name: string): string | undefined {
  const command = commands[name];
  if (command === undefined || name === "ctl") return undefined;
  const { about, options } = command;
  if (options === undefined) return [`Usage: ./gpve ${name} ...`, "", about].join("\n");
  return [
    `Usage: ./gpve ${name} [options]`,
    "",
    about,
    "",
    "Options:",
    ...columns(Object.entries(options)),
  ].join("\n");
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, about]) => `  ${name.padEnd(width)}  ${about}`);
}
