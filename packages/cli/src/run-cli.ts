// The entry of gpvectl: parse, choose a server, run, explain failures, return the exit code.
import { CommanderError } from "commander";
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError, errorKinds } from "@gpve/contracts/errors.ts";
import { calledAs } from "./called-as.ts";
import type { Cli, GlobalOptions } from "./command.ts";
import { allCommands } from "./commands.ts";
import { type Attempt, causeLines, exitCodeOf, failureLine, INTERRUPTED } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { meantSettings } from "./meant-settings.ts";
import { coloursFor } from "./output/colour.ts";
import { OUTPUT_FORMATS, type OutputFormat, Printer } from "./output/printer.ts";
import { buildProgram, type Chosen } from "./program.ts";
import { findTarget, openClient } from "./session/target.ts";

/** `argv` without the program's own name. */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  const parsed = await parse(argv, io);
  if (typeof parsed === "number") return parsed;
  const { spec, input, global } = parsed;
  const opened: { client?: GpveClient } = {};
  const options = globalOptionsOf(global);
  const format = formatOf(global["output"]) ?? (input.flag("json") ? "json" : undefined);
  const wording = calledAs(io, options);
  const out = new Printer({
    io,
    format: format ?? "table",
    colour: global["color"] !== false,
    quiet: global["quiet"] === true,
    wording,
  });
  const cli: Cli = {
    io,
    out,
    signal: io.signal,
    global: options,
    client: async () => {
      opened.client ??= await openClient(io, await findTarget(io, options), options.timeoutMs);
      return opened.client;
    },
  };
  try {
    const code = (await spec.run(cli, input)) ?? 0;
    return io.signal.aborted ? INTERRUPTED : code;
  } catch (err) {
    if (io.signal.aborted) return INTERRUPTED;
    const attempt: Attempt = {
      doing: spec.doing(input),
      command: spec.name,
      origin: opened.client?.origin,
      commands: allCommands.map((command) => command.name),
      meant: spec.name.startsWith("vm ") ? await meantSettings(err) : undefined,
    };
    report(io, wording(failureLine(err, attempt)), global);
    if (global["debug"] === true) io.stderr.write(`${causeLines(err).join("\n")}\n`);
    return exitCodeOf(err);
  } finally {
    opened.client?.close();
  }
}

async function parse(argv: readonly string[], io: CliIo): Promise<Chosen | number> {
  let chosen: Chosen | undefined;
  const wording = calledAs(io);
  const streams = {
    out: (text: string) => io.stdout.write(wording(text)),
    err: (text: string) => io.stderr.write(wording(text.replace(/^error: /, "gpvectl: "))),
    width: io.stdout.columns,
  };
  const program = buildProgram(allCommands, streams, (found) => {
    chosen = found;
  });
  try {
    await program.parseAsync(familiarSpelling(argv), { from: "user" });
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err;
    // Help that was asked for is success; help that was not is a mistake in the command line.
    return err.exitCode === 0 ? 0 : errorKinds.invalid.exit;
  }
  if (chosen === undefined) throw new AppError("internal.error", "no command was chosen");
  return chosen;
}

/** People who come from Terraform write `output -raw NAME`. */
function familiarSpelling(argv: readonly string[]): string[] {
  const isOutput = argv[0] === "talos" && argv[1] === "output";
  return argv.map((word) => (isOutput && (word === "-raw" || word === "-json") ? `-${word}` : word));
}

function report(io: CliIo, line: string, global: Chosen["global"]): void {
  const colours = coloursFor(io.stderr, io, global["color"] !== false);
  io.stderr.write(`${colours.red(line)}\n`);
}

function globalOptionsOf(given: Chosen["global"]): GlobalOptions {
  const { data, context, timeout, output } = given;
  return {
    ...(typeof data === "string" ? { data } : {}),
    ...(typeof context === "string" ? { context } : {}),
    ...(typeof timeout === "number" ? { timeoutMs: timeout * 1000 } : {}),
    outputGiven: output !== undefined,
  };
}

function formatOf(value: unknown): OutputFormat | undefined {
  return OUTPUT_FORMATS.find((format) => format === value);
}
