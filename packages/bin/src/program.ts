// One program, many names: gpve, gpve-server, gpve-agent, gpvectl, and PVE's own commands.
import { basename } from "node:path";
import { setFlagsFromString } from "node:v8";
import { AppError, errorKinds, messageOf } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { helpOf, overview } from "./command-help.ts";
import { DISK_IS_FULL } from "./commands/why-not-started.ts";
import { processIo, type Io } from "./io.ts";
import { pveCommandNames } from "./pve-command-names.ts";

type Command = (args: readonly string[], io: Io) => Promise<number>;

// Loaded on demand: `gpve ctl` must not pay for the server, nor the agent for the CLI.
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  up: async () => (await import("./commands/up.ts")).up,
  down: async () => (await import("./commands/down.ts")).down,
  status: async () => (await import("./commands/status.ts")).status,
  lab: async () => (await import("./commands/lab.ts")).lab,
  ctl: async () => (await import("./commands/ctl.ts")).ctl,
  cluster: async () => (await import("./commands/cluster.ts")).cluster,
  server: async () => (await import("./commands/server.ts")).server,
  agent: async () => (await import("./commands/agent.ts")).agent,
  fence: async () => (await import("./commands/fence.ts")).fence,
  "vc-store": async () => (await import("./commands/vc-store.ts")).vcStore,
  "vc-proxy": async () => (await import("./commands/vc-proxy.ts")).vcProxy,
  "vc-line": async () => (await import("./commands/vc-line.ts")).vcLine,
  "vc-balancer": async () => (await import("./commands/vc-balancer.ts")).vcBalancer,
  "pve-commands": async () => (await import("./commands/pve-commands.ts")).pveCommands,
  ...Object.fromEntries(
    pveCommandNames.map((name) => [name, async () => (await import("./commands/pve.ts")).pveCommand(name)]),
  ),
};

const byName: Readonly<Record<string, string>> = {
  "gpve-server": "server",
  "gpve-agent": "agent",
  gpvectl: "ctl",
  ...Object.fromEntries(pveCommandNames.map((name) => [name, name])),
};

async function main(argv: readonly string[]): Promise<number> {
  const called = byName[basename(process.argv0)];
  const [name = "help", ...args] = called === undefined ? argv : [called, ...argv];
  if (name === "version" || name === "--version") {
    processIo.out(`gpve ${PRODUCT_VERSION}`);
    return 0;
  }
  const load = commands[name];
  if (load === undefined) {
    const known = name === "help" || name === "--help" || name === "-h";
    if (!known) processIo.err(`gpve: no command "${name}"\n`);
    processIo.out((known ? helpOf(args[0] ?? "") : undefined) ?? overview());
    return known ? 0 : errorKinds.invalid.exit;
  }
  const help = args.some((arg) => arg === "--help" || arg === "-h") ? helpOf(name) : undefined;
  if (help !== undefined) {
    processIo.out(help);
    return 0;
  }
  const run = await load();
  return run(args, processIo);
}

// At its exit Node waits for the thread that compiles beside us, which may wait for a garbage collection that nobody makes any more:
// a program that failed at its start then stood still for good instead of ending (nodejs/node#54918).
setFlagsFromString("--no-concurrent-sparkplug");

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (err: unknown) => {
    const isFull = (err as NodeJS.ErrnoException).code === "ENOSPC";
    const next = isFull ? `: ${DISK_IS_FULL}` : "";
    processIo.err(`gpve: ${messageOf(err)}${next}`);
    if (!isFull && !(err instanceof AppError) && err instanceof Error && err.stack !== undefined)
      processIo.err(err.stack);
    process.exit(err instanceof AppError ? errorKinds[err.kind].exit : 1);
  },
);
