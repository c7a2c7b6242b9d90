// One program, many names: gpve, gpve-server, gpve-agent, gpvectl.
import { basename } from "node:path";
import { AppError, errorKinds, messageOf } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { processIo, type Io } from "./io.ts";

type Command = (args: readonly string[], io: Io) => Promise<number>;

// Loaded on demand: `gpve ctl` must not pay for the server, nor the agent for the CLI.
const commands: Readonly<Record<string, { readonly about: string; readonly load: () => Promise<Command> }>> =
  {
    up: {
      about: "start server and agent on this machine",
      load: async () => (await import("./commands/up.ts")).up,
    },
    down: { about: "stop them; guests run on", load: async () => (await import("./commands/down.ts")).down },
    status: {
      about: "what runs on a data directory",
      load: async () => (await import("./commands/status.ts")).status,
    },
    ctl: {
      about: "gpvectl for the server on this machine",
      load: async () => (await import("./commands/ctl.ts")).ctl,
    },
    server: {
      about: "run a server: --config FILE",
      load: async () => (await import("./commands/server.ts")).server,
    },
    agent: {
      about: "run an agent: --config FILE",
      load: async () => (await import("./commands/agent.ts")).agent,
    },
  };

const byName: Readonly<Record<string, string>> = {
  "gpve-server": "server",
  "gpve-agent": "agent",
  gpvectl: "ctl",
};

async function main(argv: readonly string[]): Promise<number> {
  const called = byName[basename(process.argv0)];
  const [name = "help", ...args] = called === undefined ? argv : [called, ...argv];
  if (name === "version" || name === "--version") {
    processIo.out(`gpve ${PRODUCT_VERSION}`);
    return 0;
  }
  const command = commands[name];
  if (command === undefined) {
    const known = name === "help" || name === "--help" || name === "-h";
    if (!known) processIo.err(`gpve: no command "${name}"\n`);
    processIo.out(help());
    return known ? 0 : errorKinds.invalid.exit;
  }
  const run = await command.load();
  return run(args, processIo);
}

function help(): string {
  const rows = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(8)} ${about}`);
  return [
    "gpve: virtual machines, containers and Kubernetes clusters on Linux machines, as one cloud",
    "",
    "Usage: ./gpve COMMAND [--data DIR] …",
    "",
    ...rows,
    "  test     prepare this machine and run every test",
    "",
    "Start with: ./gpve up --detach",
  ].join("\n");
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (err: unknown) => {
    processIo.err(`gpve: ${messageOf(err)}`);
    if (!(err instanceof AppError) && err instanceof Error && err.stack !== undefined)
      processIo.err(err.stack);
    process.exit(err instanceof AppError ? errorKinds[err.kind].exit : 1);
  },
);
