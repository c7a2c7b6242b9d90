// The entry of PVE's commands: which one, with what, and the exit code that scripts look at.
import { AppError } from "@gpve/contracts/errors.ts";
import { INTERRUPTED } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { callCommand } from "./call-command.ts";
import type { CommandGroup } from "./command-entry.ts";
import { shapeOf } from "./command-shape.ts";
import { FAILED, failureCode, failureText } from "./failure-text.ts";
import { findCommand } from "./find-command.ts";
import { LocalSession } from "./local-session.ts";
import { programTables } from "./programs.ts";
import { pvesh, pveshShape, PVESH_USAGE } from "./pvesh.ts";
import { fullUsage, groupUsage, usageLine } from "./usage.ts";

/** `program` is qm, pvesh, pvesm, pveum, pvenode or vzdump. */
export async function runPveCommand(program: string, argv: readonly string[], io: CliIo): Promise<number> {
  if (program === "pvesh") return runPvesh(argv, io);
  const table = programTables[program];
  if (table === undefined) throw new AppError("internal.error", `${program} is none of PVE's commands`);
  if ("call" in table) {
    const shape = shapeOf(table);
    if (argv[0] === "help") return say(io, fullUsage(program, shape));
    return guarded(io, usageLine(program, shape), (session) => callCommand(session, table, argv));
  }
  const [first, ...more] = argv;
  if (first === "help" || first === "--help" || first === "-h") return help(program, table, more, io);
  const found = findCommand(program, table, argv);
  switch (found.kind) {
    case "unknown":
      io.stderr.write(`ERROR: unknown command '${found.name}'\n${groupUsage(found.within, found.group)}\n`);
      return FAILED;
    case "group":
      io.stderr.write(`ERROR: no command specified\n${groupUsage(found.name, found.group)}\n`);
      return FAILED;
    case "refused":
      io.stderr.write(`${found.name} does not exist on gpve: ${found.why}\n`);
      return FAILED;
    case "command": {
      const { name, command, rest } = found;
      return guarded(io, usageLine(name, shapeOf(command)), (session) => callCommand(session, command, rest));
    }
  }
}

function help(program: string, table: CommandGroup, words: readonly string[], io: CliIo): number {
  const found = findCommand(program, table, words);
  switch (found.kind) {
    case "command":
      return say(io, fullUsage(found.name, shapeOf(found.command)));
    case "refused":
      return say(io, `${found.name} does not exist on gpve: ${found.why}`);
    case "group":
      return say(io, groupUsage(found.name, found.group));
    case "unknown":
      io.stderr.write(`no such command '${found.name}'\n`);
      return FAILED;
  }
}

function runPvesh(argv: readonly string[], io: CliIo): Promise<number> | number {
  // Old spellings, before the command.
  const old = argv.findIndex((word) => word !== "--noproxy" && word !== "--nooutput");
  const isQuiet = argv.slice(0, Math.max(old, 0)).includes("--nooutput");
  const [verb, ...words] = old < 0 ? [] : argv.slice(old);
  if (verb === "help" || verb === "--help") return say(io, PVESH_USAGE);
  const known = ["get", "set", "create", "delete", "ls", "usage"];
  if (verb === undefined || !known.includes(verb)) {
    const what = verb === undefined ? "no command specified" : `unknown command 'pvesh ${verb}'`;
    io.stderr.write(`ERROR: ${what}\n${PVESH_USAGE}\n`);
    return FAILED;
  }
  const path = words.find((word) => !word.startsWith("-"));
  const shape = path === undefined ? undefined : pveshShape(verb, path);
  const usage =
    shape === undefined ? `pvesh ${verb} <api_path> [OPTIONS]` : usageLine(`pvesh ${verb}`, shape);
  const all = isQuiet && verb !== "usage" ? [...words, "--quiet"] : words;
  return guarded(io, usage, (session) => pvesh(session, verb, all));
}

async function guarded(
  io: CliIo,
  usage: string,
  run: (session: LocalSession) => Promise<void>,
): Promise<number> {
  const session = new LocalSession(io);
  try {
    await run(session);
    return io.signal.aborted ? INTERRUPTED : 0;
  } catch (err) {
    if (io.signal.aborted) return INTERRUPTED;
    if (!(err instanceof AppError)) throw err;
    io.stderr.write(`${failureText(err, usage)}\n`);
    const { exit } = err.data;
    return typeof exit === "number" ? exit : failureCode(err);
  } finally {
    await session.close();
  }
}

function say(io: CliIo, text: string): number {
  io.stdout.write(`${text}\n`);
  return 0;
}
