// The VIP of two clusters, from one to the other.
import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { HandOverSide, HandOverStep } from "@gpve/talos/engine/hand-over.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli } from "../../command.ts";
import type { Input } from "../../input.ts";
import { around } from "./around.ts";
import { withMark } from "./mark.ts";
import { needSecrets, withOpenCluster } from "./open.ts";
import { printChecks } from "./status.ts";

export async function handOverVip(cli: Cli, input: Input, old: ClusterFolder): Promise<number> {
  const [
    { openClusterFolder },
    { clusterStatus },
    { runHandOver },
    { takeLease },
    { makeTrace },
    { editCluster },
    { TimeLine },
  ] = await Promise.all([
    import("@gpve/talos/folder/cluster-folder.ts"),
    import("@gpve/talos/status/cluster-status.ts"),
    import("@gpve/talos/engine/hand-over.ts"),
    import("@gpve/talos/folder/lease.ts"),
    import("@gpve/talos/engine/make-trace.ts"),
    import("@gpve/talos/edit/edit-cluster.ts"),
    import("./time-line.ts"),
  ]);
  const target = openClusterFolder(input.arg("to"), around(cli));
  const vip = sharedVip(old, target);
  const files = { old: old.file, new: target.file } as const;
  const folder = (side: HandOverSide): ClusterFolder => openClusterFolder(files[side], around(cli));
  const secrets = await needSecrets(cli, target);
  const { checks } = await withOpenCluster(cli, target, secrets, async ({ cluster }) =>
    clusterStatus(cluster.desired(), await cluster.observe(), cluster.lock, secrets),
  );
  if (cli.out.forPeople) printChecks(cli, { checks });
  const bad = checks.filter(({ isFine }) => !isFine);
  const { name } = target.cluster.metadata;
  if (bad.length > 0) {
    const why = bad.map((check) => `${check.name}: ${check.detail}`).join("; ");
    throw new AppError("object.conflict", `${name} is not well: ${why}`, {
      data: { finding: "front-unready", next: "The VIP was left where it is." },
    });
  }
  const question = `Hand ${vip} from ${old.cluster.metadata.name} to ${name}? For a moment nobody has it. Only yes is taken: `;
  if (!input.flag("yes") && (await cli.io.ask(question)).trim() !== "yes") {
    cli.out.done("Nothing was changed.");
    return 1;
  }
  const line = new TimeLine(cli);
  const leases = [old, target].map((place) => takeLease(place.folder, place.cluster.metadata.name));
  try {
    await runHandOver({
      look: async (side) => {
        const place = folder(side);
        return withOpenCluster(cli, place, await needSecrets(cli, place), async ({ cluster }) => {
          const { steps, findings } = makeTrace(cluster.desired(), await cluster.observe());
          const { metadata, endpoint } = place.cluster;
          return { name: metadata.name, holds: endpoint.front?.holds === true, steps, findings };
        });
      },
      write: (side, holds) => {
        const { text, file } = folder(side);
        const edits = [{ key: "endpoint.front.holds", value: String(holds) }];
        writeFileAtomic(resolve(cli.io.cwd, file), editCluster(text, edits, file, cli.io.env), 0o644);
      },
      apply: async (side) => {
        const place = folder(side);
        const { findings } = await withOpenCluster(cli, place, await needSecrets(cli, place), (opened) =>
          withMark(cli, input, place, opened, ({ signal }) =>
            opened.cluster.apply({
              report: (report) => line.report(report),
              signal: AbortSignal.any([cli.signal, signal]),
            }),
          ),
        );
        const [first] = findings;
        if (first !== undefined)
          throw new AppError("operation.failed", `${first.subject}: ${first.evidence}`, {
            data: { finding: first.id },
          });
      },
      report: (step) => cli.out.note(texts[step].replace("%", vip)),
    });
  } finally {
    for (const lease of leases) lease.release();
  }
  if (cli.out.forPeople)
    cli.out.done(`${name} has ${vip}. ${old.cluster.metadata.name} runs on until you destroy it.`);
  else cli.out.data({ ok: true, to: name, vip });
  return 0;
}

const texts: Readonly<Record<HandOverStep, string>> = {
  "give-up": "The old cluster's file gives % up.",
  "apply-old": "The old cluster's control planes lose %.",
  take: "None of them has % any more; the new cluster's file takes it.",
  "apply-new": "The new cluster's control planes get %.",
  done: "The new cluster's control planes have %.",
};

function sharedVip(old: ClusterFolder, target: ClusterFolder): string {
  const vip = old.cluster.endpoint.front?.vip;
  const { name } = target.cluster.metadata;
  const isOther = name !== old.cluster.metadata.name;
  if (vip !== undefined && isOther && target.cluster.endpoint.front?.vip === vip) return vip;
  throw new AppError(
    "object.conflict",
    `endpoint.front of ${target.file} is not the VIP ${vip} of another cluster`,
    {
      data: { finding: "front-unnamed", next: "The VIP was left where it is." },
    },
  );
}
