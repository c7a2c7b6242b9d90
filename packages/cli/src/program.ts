// Turns the commands' descriptions into a commander program.
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { messageOf } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { ArgumentSpec, CommandSpec, OptionSpec } from "./command.ts";
import { durationSeconds, Input } from "./input.ts";
import { OUTPUT_FORMATS } from "./output/printer.ts";

export const globalOptions: readonly OptionSpec[] = [
  { flags: "-o, --output <format>", about: "how to print", choices: OUTPUT_FORMATS },
  { flags: "--data <dir>", about: "use the gpve of this data directory on this machine; no login needed" },
  { flags: "--context <name>", about: "use this context instead of the current one" },
  {
    flags: "--timeout <duration>",
    about: "give up on a silent server after this long (60s)",
    parse: durationSeconds,
  },
  { flags: "-q, --quiet", about: "print results only, no remarks" },
  { flags: "--no-color", about: "no colour, even on a terminal" },
  { flags: "--debug", about: "on failure, show the chain of causes" },
];

/** What a noun is about, for `gpvectl help`. */
export const nouns: Readonly<Record<string, string>> = {
  acl: "who has which role where",
  api: "raw calls on either API face",
  audit: "the audit log",
  context: "the servers you talk to",
  component: "programs that virtual clusters are made of",
  group: "groups of users",
  ha: "guests that outlive their node",
  vc: "virtual clusters: Kubernetes of one's own",
  image: "cloud images to make VMs from",
  node: "machines that run guests",
  pool: "pools of guests and storages",
  quota: "what tenants use and may use",
  realm: "where users come from",
  replication: "copies of local disks on a second node",
  rebalance: "plans that move guests where they fit better",
  role: "named sets of privileges",
  server: "servers of the cluster",
  store: "the data of a stopped or running gpve",
  simulate: "what would happen: failures, lost nodes, placements",
  talos: "Talos Kubernetes clusters from one file",
  "talos addons": "what is installed into a Talos cluster",
  "talos backup": "backups of a cluster's machines and of its own files, and the ways back",
  "talos image": "images that a cluster's machines are made from, and what they are held to",
  "talos etcd": "snapshots of a Talos cluster's etcd: take, verify, restore, drill, schedule",
  "talos secrets": "a Talos cluster's secrets bundle",
  task: "running and finished work",
  token: "API tokens",
  user: "users",
  vm: "virtual machines",
  "vm snapshot": "states of a VM to go back to",
  storage: "where disks, images and backups lie",
};

export interface Chosen {
  readonly spec: CommandSpec;
  readonly input: Input;
  readonly global: Readonly<Record<string, unknown>>;
}

export interface ProgramStreams {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly width: number | undefined;
}

export function buildProgram(
  specs: readonly CommandSpec[],
  streams: ProgramStreams,
  onChosen: (chosen: Chosen) => void,
): Command {
  const program = new Command("gpvectl")
    .description("Control a gpve: nodes, guests, access, tasks, and any object of its API.")
    .version(PRODUCT_VERSION, "-V, --version", "print the version of gpvectl")
    .helpCommand("help [command]", "show help for a command");
  prepare(program, streams, "");
  for (const option of globalOptions) program.addOption(optionOf(option));
  program.addHelpText("after", "\nStart with `gpvectl status`. Every command has --help.\n");
  for (const spec of specs) addCommand(program, spec, streams, onChosen);
  return program;
}

function addCommand(
  program: Command,
  spec: CommandSpec,
  streams: ProgramStreams,
  onChosen: (chosen: Chosen) => void,
): void {
  const words = spec.name.split(" ");
  const last = words.pop() ?? "";
  let parent = program;
  words.forEach((_word, at) => {
    parent = nounCommand(parent, words.slice(0, at + 1), streams);
  });
  const command = parent.command(last).summary(spec.summary);
  command.description(spec.details === undefined ? spec.summary : `${spec.summary}\n\n${spec.details}`);
  prepare(command, streams, spec.name);
  for (const argument of spec.arguments ?? []) command.addArgument(argumentOf(argument));
  for (const option of spec.options ?? []) addOption(command, option);
  if (spec.examples !== undefined) {
    const lines = spec.examples.map((example) => `  gpvectl ${example}`);
    command.addHelpText("after", `\nExamples:\n${lines.join("\n")}\n`);
  }
  command.action(() => {
    const names = command.registeredArguments.map((argument) => argument.name());
    const values = Object.fromEntries(names.map((name, at) => [name, command.processedArgs[at] as unknown]));
    onChosen({
      spec,
      input: new Input({ arguments: values, options: command.opts() }),
      global: program.opts(),
    });
  });
}

function nounCommand(parent: Command, words: readonly string[], streams: ProgramStreams): Command {
  const name = words.at(-1) ?? "";
  const known = parent.commands.find((command) => command.name() === name);
  if (known !== undefined) return known;
  const noun = words.join(" ");
  const made = parent.command(name).description(nouns[noun] ?? noun);
  prepare(made, streams, noun);
  return made;
}

function prepare(command: Command, streams: ProgramStreams, name: string): void {
  command
    .exitOverride()
    .configureOutput({
      writeOut: streams.out,
      writeErr: streams.err,
      getOutHelpWidth: () => streams.width ?? 100,
      getErrHelpWidth: () => streams.width ?? 100,
    })
    .configureHelp({ showGlobalOptions: true, sortSubcommands: true })
    .showSuggestionAfterError(true)
    .showHelpAfterError(`See: gpvectl ${name === "" ? "" : `${name} `}--help`);
}

function argumentOf(spec: ArgumentSpec): Argument {
  const argument = new Argument(spec.name, spec.about);
  return spec.choices === undefined ? argument : argument.choices([...spec.choices]);
}

/** Who says `--wait` where only `--no-wait` changes anything is understood. */
function addOption(command: Command, spec: OptionSpec): void {
  command.addOption(optionOf(spec));
  const name = /^--no-([\w-]+)$/.exec(spec.flags)?.[1];
  if (name !== undefined) command.addOption(new Option(`--${name}`).default(true).hideHelp());
}

function optionOf(spec: OptionSpec): Option {
  const option = new Option(spec.flags, spec.about);
  if (spec.choices !== undefined) option.choices([...spec.choices]);
  const { parse } = spec;
  if (parse !== undefined) {
    option.argParser((text) => {
      try {
        return parse(text);
      } catch (err) {
        throw new InvalidArgumentError(messageOf(err));
      }
    });
  }
  if (spec.many === true) {
    option.argParser((text, before: readonly string[] | undefined) => [...(before ?? []), text]);
  }
  if (spec.required === true) option.makeOptionMandatory();
  return option;
}
