import type { ApplyPart } from "@gpve/talos/engine/desired.ts";
import type { StepReport } from "@gpve/talos/engine/run-apply.ts";
import type { Finding } from "@gpve/talos/preflight/finding-report.ts";
import type { PreflightResult } from "@gpve/talos/preflight/preflight.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { ClusterLock } from "@gpve/talos/folder/lock-file.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { explaining, fileOf, fileOption, jsonOption, openFolder } from "./around.ts";
import { needSecrets, type Opened, withOpenCluster } from "./open.ts";
import { isGone, operatorName } from "./operator.ts";
import { commandsOf, downtimeOption, onlyOption, preparing, printCommandsOption, printPlan } from "./plan.ts";
import { allChecks, insideChoice, insideOptions } from "./checks.ts";
import { printChecks } from "./status.ts";
import { prepareFor } from "./prepare-addons.ts";
import { checkUpgrades, forPrograms, printFindings, runPreflight } from "./preflight.ts";

export const yesOption = { flags: "--yes", about: "do it without asking" };
/** Of every command that ends in an apply. */
export const doingOptions = [
  { flags: "--take-over", about: "even while somebody else's mark is fresh" },
  { ...printCommandsOption, about: "print with each step the command that would do it by hand" },
] as const;

export const talosApply: CommandSpec = {
  name: "talos apply",
  summary: "make the cluster what its file says",
  details:
    "Checks first, shows every step, asks, and does them one after another, each checked by what is seen after it. It can be stopped at any point, also by kill -9: the next apply looks at what is there and goes on. etcd is begun once, and never loses its quorum by a step of ours. Copies of the file, the lock and the secrets from before are kept in .deployer/CLUSTER/before.",
  options: [fileOption, onlyOption, downtimeOption, yesOption, ...doingOptions, ...insideOptions, jsonOption],
  examples: ["talos apply", "talos apply --only infrastructure", "talos apply --yes"],
  doing: (input) => `apply ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      return applyPlace(cli, input, place);
    }),
};

type Prepare = (opened: Opened) => void | Promise<void>;

/** What every command that changes a cluster comes down to. `prepare` writes down what it wants. */
export async function applyPlace(
  cli: Cli,
  input: Input,
  place: ClusterFolder,
  prepare: Prepare = () => undefined,
): Promise<number> {
  const { takeLease } = await import("@gpve/talos/folder/lease.ts");
  const only = input.text("only") as ApplyPart | undefined;
  const checked = await settledPreflight(cli, place, only);
  const prepared = await prepareFor(cli, place, { isFetching: true, only });
  const findings = [...checked.findings, ...prepared.findings];
  if (findings.some(({ severity }) => severity === "error")) {
    if (cli.out.forPeople) await printFindings(cli, findings);
    else cli.out.data({ ok: false, findings: await forPrograms(findings), steps: [] });
    return 1;
  }
  const lease = takeLease(place.folder, place.cluster.metadata.name);
  try {
    const secrets = await needSecrets(cli, place);
    return await withOpenCluster(
      cli,
      place,
      secrets,
      (opened) => apply(cli, input, place, opened, { checked, prepare }),
      prepared,
    );
  } finally {
    lease.release();
  }
}

const HALF_MADE_MS = 120_000;
const PAUSE_MS = 2_000;

/** A guest that a killed apply had asked for is nobody's until the platform has made it: it is waited for. */
async function settledPreflight(
  cli: Cli,
  place: ClusterFolder,
  only: ApplyPart | undefined,
): Promise<PreflightResult> {
  const { FileJournal, interrupted, journalPath } = await import("@gpve/talos/folder/journal.ts");
  const lines = new FileJournal(journalPath(place.folder, place.cluster.metadata.name)).lines();
  const cut = interrupted(lines);
  const { clock } = cli.io;
  const until = clock.monotonic() + HALF_MADE_MS;
  for (let isFirst = true; ; isFirst = false) {
    const checked = await runPreflight(cli, place, only);
    const errors = checked.findings.filter(({ severity }) => severity === "error");
    const isHalfMade = ({ id, subject }: Finding): boolean =>
      id === "vmid-taken" && ["create", "clone"].some((verb) => cut.has(`guest.${verb} ${subject}`));
    if (errors.length === 0 || !errors.every(isHalfMade) || clock.monotonic() >= until) return checked;
    if (isFirst)
      cli.out.note(`Waiting for what was begun before: ${errors.map(({ subject }) => subject).join(", ")}.`);
    await clock.sleep(PAUSE_MS, cli.signal);
  }
}

async function apply(
  cli: Cli,
  input: Input,
  place: ClusterFolder,
  opened: Opened,
  { checked, prepare }: { readonly checked: PreflightResult; readonly prepare: Prepare },
): Promise<number> {
  const { makeTrace } = await import("@gpve/talos/engine/make-trace.ts");
  const { cluster } = opened;
  const options = {
    only: input.text("only") as ApplyPart | undefined,
    acceptsDowntime: input.flag("acceptDowntime"),
  };
  const before = cluster.lock;
  await prepare(opened);
  const plan = makeTrace(cluster.desired(options), await cluster.observe());
  const upgrades = await checkUpgrades(cli, place, plan.steps, checked);
  if (cli.out.forPeople) await printPlan(cli, plan.steps, [...plan.findings, ...upgrades]);
  if (upgrades.some(({ severity }) => severity === "error")) {
    cluster.change(() => before);
    if (!cli.out.forPeople) cli.out.data({ ok: false, findings: await forPrograms(upgrades), steps: [] });
    return 1;
  }
  const isStopped = plan.steps.length === 0;
  if (!isStopped && !(await isWanted(cli, input))) {
    cluster.change(() => before);
    cli.out.done("Nothing was changed.");
    return 1;
  }
  const { TimeLine } = await import("./time-line.ts");
  const isTyping = input.flag("printCommands");
  if (isTyping && cli.out.forPeople)
    for (const each of preparing(place.file, plan.steps.map(await commandsOf(place)))) cli.out.line(each);
  const line = new TimeLine(cli, isTyping ? await commandsOf(place) : undefined);
  const mark = await takeMark(cli, input, place, opened);
  const taken = new AbortController();
  let renewing: Promise<void> = Promise.resolve();
  const report = (each: StepReport): void => {
    line.report(each);
    // Whoever loses the mark stops before his next step.
    renewing = renewing.then(() => mark?.renew()).catch((err: unknown) => taken.abort(err));
  };
  try {
    const signal = AbortSignal.any([cli.signal, taken.signal]);
    const { steps, findings, world } = await cluster.apply({ ...options, report, signal });
    await renewing;
    const isDone = findings.length === 0;
    const unpinned = isDone ? await unpinnedOf(place, cluster.lock) : [];
    if (cli.out.forPeople && isDone) line.end(place.cluster.metadata.name);
    const checks =
      isDone && options.only === undefined
        ? await allChecks(cli, opened, world, place, { secrets: undefined, ...insideChoice(input) })
        : [];
    if (!cli.out.forPeople)
      cli.out.data({ ok: isDone, findings: await forPrograms([...findings, ...unpinned]), steps, checks });
    else {
      if (isDone) printChecks(cli, { checks });
      await printFindings(cli, [...findings, ...unpinned]);
    }
    // What was asked for is done; whether it works is what `verify` ends with.
    return isDone ? 0 : 1;
  } finally {
    await mark?.release().catch((err: unknown) => ignore(err, "a mark is void after 15 minutes by itself"));
  }
}

async function unpinnedOf(
  { cluster, machines }: ClusterFolder,
  lock: ClusterLock,
): Promise<readonly Finding[]> {
  const { unpinnedImages } = await import("@gpve/talos/image/image-pins.ts");
  return unpinnedImages(cluster, machines, lock);
}

async function isWanted(cli: Cli, input: Input): Promise<boolean> {
  if (input.flag("yes")) return true;
  const answer = await cli.io.ask("Do all this? Only yes is taken: ");
  return answer.trim() === "yes";
}

/** Where the first control plane is already there, others see the mark on it. */
async function takeMark(cli: Cli, input: Input, place: ClusterFolder, { cluster, drivers }: Opened) {
  const [{ OperatorMark }, { cluster: file }] = [await import("@gpve/talos/folder/lease.ts"), place];
  const first = place.machines.find(({ role }) => role === "controlplane");
  const guest = first === undefined ? undefined : (await cluster.observe()).machines.get(first.name)?.guest;
  const driver = drivers.get(guest?.provider ?? "");
  if (guest === undefined) return undefined;
  if (driver === undefined) throw new AppError("internal.error", `no driver of ${file.metadata.name}`);
  return OperatorMark.take({
    driver,
    place: guest.place,
    holder: operatorName(),
    isGone,
    now: () => cli.io.clock.now(),
    takeOver: input.flag("takeOver"),
  });
}
