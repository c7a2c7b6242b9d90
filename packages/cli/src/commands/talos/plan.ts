import type { ApplyPart } from "@gpve/talos/engine/desired.ts";
import type { Trace } from "@gpve/talos/engine/make-trace.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Step } from "@gpve/talos/plan/plan-steps.ts";
import type { CommandFacts } from "@gpve/talos/plan/step-text.ts";
import type { Finding } from "@gpve/talos/preflight/finding-report.ts";
import type { PreflightResult } from "@gpve/talos/preflight/preflight.ts";
import type { Cli, CommandSpec, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { around, explaining, fileOf, fileOption, jsonOption, openFolder } from "./around.ts";
import { withOpenCluster } from "./open.ts";
import { type PreparedFor, prepareFor } from "./prepare-addons.ts";
import { checkUpgrades, forPrograms, printFindings, runPreflight } from "./preflight.ts";

/** As desired.ts has them; named here because help must not load what runs the command. */
const PARTS = ["infrastructure", "bootstrap", "addons", "ccm"] as const;

export const onlyOption: OptionSpec = {
  flags: "--only <part>",
  about: "this part alone: infrastructure, bootstrap, addons or ccm",
  choices: PARTS,
};

export const downtimeOption: OptionSpec = {
  flags: "--accept-downtime",
  about: "a single control plane may be away while it is changed",
};

export const printCommandsOption: OptionSpec = {
  flags: "--print-commands",
  about: "print the commands that would do it by hand",
};

export const talosPlan: CommandSpec = {
  name: "talos plan",
  summary: "show every step from what is there to what the file says, touching nothing",
  details:
    "Machines, what runs in them, etcd and Kubernetes are looked at; ours are known by tag and identity. Every step until nothing is left to do is listed as it would be done. Ends with 1 when something would fail.",
  options: [
    fileOption,
    onlyOption,
    downtimeOption,
    { flags: "--detailed-exitcode", about: "end with 2 when there is something to do" },
    printCommandsOption,
    jsonOption,
  ],
  examples: ["talos plan", "talos plan --print-commands", "talos plan --output json"],
  doing: (input) => `plan ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const only = input.text("only") as ApplyPart | undefined;
      const checked = await runPreflight(cli, place, only);
      const prepared = await prepareFor(cli, place, { isFetching: true, only });
      const { steps, findings: stops, kept } = await tracePlan(cli, input, place, checked, prepared);
      const upgrades = await checkUpgrades(cli, place, steps, checked);
      const findings = [...checked.findings, ...prepared.findings, ...upgrades, ...stops];
      const isFine = !findings.some(({ severity }) => severity === "error");
      if (!cli.out.forPeople)
        cli.out.data({ ok: isFine, findings: await forPrograms(findings), steps, kept });
      else if (input.flag("printCommands")) await printCommands(cli, place, steps, findings);
      else await printPlan(cli, steps, findings, kept);
      if (!isFine) return 1;
      return input.flag("detailedExitcode") && steps.length > 0 ? 2 : 0;
    }),
};

/** Without secrets nothing was ever configured: what the platform shows is all there is to see. */
export async function tracePlan(
  cli: Cli,
  input: Input,
  place: ClusterFolder,
  checked: PreflightResult,
  prepared: PreparedFor,
): Promise<Trace> {
  const [{ readSecrets }, { makeTrace }, { guestsWorld }] = await Promise.all([
    import("@gpve/talos/folder/secrets-store.ts"),
    import("@gpve/talos/engine/make-trace.ts"),
    import("@gpve/talos/engine/observe/look-at-guests.ts"),
  ]);
  const options = {
    only: input.text("only") as ApplyPart | undefined,
    acceptsDowntime: input.flag("acceptDowntime"),
  };
  const secrets = await readSecrets(place, around(cli));
  const isReachable = checked.observed.length === place.cluster.providers.length;
  if (secrets !== undefined && isReachable) {
    return withOpenCluster(
      cli,
      place,
      secrets,
      async ({ cluster }) => makeTrace(cluster.desired(options), await cluster.observe()),
      prepared,
    );
  }
  const { unknownDesired } = await import("@gpve/talos/engine/desired.ts");
  const { wantedOf } = await import("@gpve/talos/addon/cluster-addons.ts");
  const now = cli.io.clock.now();
  const world = guestsWorld(place.cluster, place.machines, checked.observed, now, place.lock.machines);
  return makeTrace({ ...unknownDesired(place), ...options, addons: wantedOf(prepared.addons) }, world);
}

export async function printPlan(
  cli: Cli,
  steps: readonly Step[],
  findings: readonly Finding[],
  kept: readonly string[] = [],
): Promise<void> {
  const { stepText } = await import("@gpve/talos/plan/step-text.ts");
  const { green, red, yellow, dim } = cli.out.colours;
  const colour = { safe: green, disruptive: yellow, destructive: red } as const;
  for (const step of steps) {
    const text = stepText(step);
    cli.out.line(text.startsWith(" ") ? dim(text) : colour[step.impact](text));
  }
  for (const text of kept) cli.out.line(dim(`  keep the ${text}`));
  await printFindings(cli, findings);
  const of = (...kinds: readonly string[]) => steps.filter(({ kind }) => kinds.includes(kind)).length;
  const changes = of("guest.change", "talos.reconfigure", "talos.upgrade", "kubernetes.kubelet");
  cli.out.done(
    steps.length === 0
      ? "Nothing to do."
      : `Plan: ${of("guest.create", "guest.clone", "template.create")} to create, ${changes} to change, ${of("guest.delete", "template.delete")} to delete; ${steps.length} steps.`,
  );
}

async function printCommands(
  cli: Cli,
  place: ClusterFolder,
  steps: readonly Step[],
  findings: readonly Finding[],
): Promise<void> {
  const commandOf = await commandsOf(place);
  const commands = steps.map(commandOf);
  for (const line of preparing(place.file, commands)) cli.out.line(line);
  for (const command of commands) cli.out.line(command);
  // They may be fed to a shell: what stands in the way is told beside them.
  for (const { id, subject, evidence } of findings) cli.out.note(`${subject}: ${evidence} [${id}]`);
}

/** What later lines rely on: files, and where programs find who they are. */
export function preparing(file: string, commands: readonly string[]): readonly string[] {
  const has = (program: string): boolean => commands.some((command) => command.startsWith(`${program} `));
  const [isTalos, isKubernetes] = [has("talosctl"), has("kubectl")];
  return [
    ...(isTalos || isKubernetes
      ? [`gpvectl talos render -f ${file} --out .  # writes nodes/, talosconfig and kubeconfig`]
      : []),
    ...(isTalos ? ['export TALOSCONFIG="$PWD/talosconfig"'] : []),
    ...(isKubernetes ? ['export KUBECONFIG="$PWD/kubeconfig"'] : []),
    ...(has("kubectl apply")
      ? [`# addons/NAME.yaml: gpvectl talos addons show -f ${file} NAME; fill in what it hides of Secrets`]
      : []),
  ];
}

/** One that is fed every step: what a command of an earlier step does for all machines is not typed again. */
export async function commandsOf({ cluster, machines }: ClusterFolder): Promise<(step: Step) => string> {
  const [{ stepCommand, stepText }, { installerImage }] = await Promise.all([
    import("@gpve/talos/plan/step-text.ts"),
    import("@gpve/talos/cluster/cluster-inputs.ts"),
  ]);
  const named = (name: string) => machines.find((machine) => machine.name === name);
  const facts: CommandFacts = {
    addressOf: (name) => named(name)?.addresses[0] ?? name,
    hostnameOf: (name) => named(name)?.hostname ?? name,
    installerOf: (name) => installerImage(cluster, named(name)?.extensions).replace(/:[^:]*$/, ""),
    besides: (hostname) =>
      machines.find((each) => each.role === "controlplane" && each.hostname !== hostname)?.addresses[0] ??
      "CONTROL-PLANE",
    hasManyHosts: cluster.providers.flatMap(({ nodes }) => nodes).length > 1,
    hasManyProviders: cluster.providers.length > 1,
  };
  const typed = new Set<string>();
  return (step) => {
    const isWhole = step.kind === "kubernetes.components" || step.kind === "kubernetes.kubelet";
    if (!isWhole) return stepCommand(step, facts);
    if (typed.has(step.to)) return `# ${stepText(step).trim()}: upgrade-k8s has done it`;
    typed.add(step.to);
    return stepCommand(step, facts);
  };
}
