import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { StepReport } from "@gpve/talos/engine/run-apply.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, CommandSpec } from "../../../command.ts";
import { type Input, wholeNumber } from "../../../input.ts";
import { yesOption } from "../apply.ts";
import { around, explaining, fileOf, fileOption, openFolder } from "../around.ts";
import { needSecrets, withOpenCluster } from "../open.ts";
import { findSnapshot } from "./find-snapshot.ts";
import { forPrograms, printFindings, runPreflight } from "../preflight.ts";

export const talosEtcdDrill: CommandSpec = {
  name: "talos etcd drill",
  summary: "prove that a snapshot can be brought back, in a scratch cluster",
  details:
    "Makes one control plane beside the cluster, CLUSTER-drill, with the cluster's secrets and an address of its own; begins its etcd from the snapshot; checks that Kubernetes comes up and knows the cluster's nodes; deletes it. The cluster itself is not touched: the scratch machine does not look for it. Pods that tolerate control planes do start on it as the snapshot has them, so a bridge that leads nowhere else is safest. Stopped, the next drill goes on.",
  arguments: [
    {
      name: "[snapshot]",
      about: "the file, plain or encrypted, or s3:NAME, s3:latest; the newest one when left out",
    },
  ],
  options: [
    fileOption,
    { flags: "--ip <address>", about: "a free address for the scratch machine", required: true },
    { flags: "--vmid <vmid>", about: "its VMID (the last of vmids.controlPlane)", parse: wholeNumber(100) },
    { flags: "--bridge <bridge>", about: "another bridge than the cluster's" },
    { flags: "--keep", about: "leave the scratch machine, to look into it; the next drill deletes it" },
    yesOption,
  ],
  examples: ["talos etcd drill --ip 10.0.0.250", "talos etcd drill --ip 10.9.0.2 --bridge vmbr9 --keep"],
  doing: (input) => `drill a snapshot of ${fileOf(input)}`,
  run: (cli, input) => explaining(cli, () => drill(cli, input)),
};

async function drill(cli: Cli, input: Input): Promise<number> {
  const place = await openFolder(cli, input);
  const { takeLease } = await import("@gpve/talos/folder/lease.ts");
  const named = input.optionalArg("snapshot") ?? place.lock.snapshot?.file;
  if (named === undefined)
    throw new AppError("object.not_found", "no snapshot was taken yet: gpvectl talos etcd snapshot");
  const { file, bytes: snapshot } = await findSnapshot(cli, named, async () => place);
  const scratch = await scratchPlace(cli, input, place);
  const { findings } = await runPreflight(cli, scratch);
  if (findings.some(({ severity }) => severity === "error")) {
    if (cli.out.forPeople) await printFindings(cli, findings);
    else cli.out.data({ ok: false, findings: await forPrograms(findings) });
    return 1;
  }
  const [machine] = scratch.machines;
  const question = `Make ${machine?.name} (VMID ${machine?.vmid}) at ${machine?.addresses[0]} from ${file}? Only yes is taken: `;
  if (!input.flag("yes") && (await cli.io.ask(question)).trim() !== "yes") {
    cli.out.done("Nothing was changed.");
    return 1;
  }
  const lease = takeLease(scratch.folder, scratch.cluster.metadata.name);
  try {
    return await run(cli, input, { place, scratch, file, snapshot });
  } finally {
    lease.release();
  }
}

interface Drilled {
  readonly place: ClusterFolder;
  readonly scratch: ClusterFolder;
  readonly file: string;
  readonly snapshot: Buffer;
}

async function run(cli: Cli, input: Input, { place, scratch, file, snapshot }: Drilled): Promise<number> {
  const [{ runDrill }, { TimeLine }, { readLock, writeLock }] = await Promise.all([
    import("@gpve/talos/engine/drill.ts"),
    import("../time-line.ts"),
    import("@gpve/talos/folder/lock-file.ts"),
  ]);
  const secrets = await needSecrets(cli, place);
  const line = new TimeLine(cli);
  const result = await withOpenCluster(cli, scratch, secrets, ({ cluster, kubernetes }) =>
    runDrill({
      scratch: cluster,
      kubernetes,
      machine: scratch.machines[0]?.name ?? "",
      snapshot,
      ...given({ images: place.lock.images }),
      nodes: place.machines.map(({ hostname }) => hostname),
      now: () => cli.io.clock.now(),
      keeps: input.flag("keep"),
      report: (report: StepReport) => line.report(report),
      signal: cli.signal,
    }),
  );
  const { name } = place.cluster.metadata;
  const drilled = { at: cli.io.clock.now(), file, sha256: result.sha256 };
  writeLock(place.folder, { ...readLock(place.folder, name), drill: drilled });
  const { knownNodes, kubernetes } = result;
  if (cli.out.forPeople)
    cli.out.done(
      `${file} brings ${name} back: Kubernetes ${kubernetes} with ${knownNodes.length} of its nodes.`,
    );
  else cli.out.data({ ok: true, file, ...result });
  return 0;
}

async function scratchPlace(cli: Cli, input: Input, place: ClusterFolder): Promise<ClusterFolder> {
  const [{ drillFile }, { clusterFolderOf }] = await Promise.all([
    import("@gpve/talos/engine/drill.ts"),
    import("@gpve/talos/folder/cluster-folder.ts"),
  ]);
  const last = Number(place.cluster.vmids.controlPlane.split("-").at(-1));
  const text = drillFile(place.text, {
    address: input.text("ip") ?? "",
    vmid: input.number("vmid") ?? last,
    bridge: input.text("bridge"),
  });
  return clusterFolderOf(place.file, text, around(cli));
}
