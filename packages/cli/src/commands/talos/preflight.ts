import type { Reasons } from "@gpve/talos/findings/explained.ts";
import type { Finding } from "@gpve/talos/preflight/finding-report.ts";
import type { Step } from "@gpve/talos/plan/plan-steps.ts";
import type { PreflightResult } from "@gpve/talos/preflight/preflight.ts";
import type { DriverDeps } from "@gpve/talos/driver/open-driver.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { around, explaining, fileOf, fileOption, jsonOption, noteReasons, openFolder } from "./around.ts";

export const talosPreflight: CommandSpec = {
  name: "talos preflight",
  summary: "check that the platform can carry the cluster, touching nothing",
  details:
    "Reach, certificate, token and privileges, nodes, storages and their contents, bridges, VMIDs, addresses (also whether somebody answers there), the image's source, time servers, memory and cores. Ends with 1 when something would fail; warnings alone end with 0.",
  options: [fileOption, jsonOption],
  examples: ["talos preflight", "talos preflight --output json"],
  doing: (input) => `check the platform of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { findings } = await runPreflight(cli, place);
      const isFine = !findings.some(({ severity }) => severity === "error");
      if (cli.out.forPeople) {
        await printFindings(cli, findings);
        if (isFine) cli.out.done(`${place.cluster.metadata.name} can be made here.`);
      } else {
        const commands = await mending(findings);
        cli.out.data({ ok: isFine, findings: await forPrograms(findings), commands });
      }
      return isFine ? 0 : 1;
    }),
};

/** `only`: what does not make machines finds them where they are. */
export async function runPreflight(cli: Cli, place: ClusterFolder, only?: string): Promise<PreflightResult> {
  const [{ preflight }, { openDriver }] = await Promise.all([
    import("@gpve/talos/preflight/preflight.ts"),
    import("@gpve/talos/driver/open-driver.ts"),
  ]);
  const deps = driverDeps(cli, place);
  const isMaking = only === undefined || only === "infrastructure";
  const probes = isMaking ? await cli.io.probes() : undefined;
  return preflight({ ...place, probes, openDriver: (provider) => openDriver(provider, deps) });
}

/** What only a plan shows to be needed of the image's source. */
export async function checkUpgrades(
  cli: Cli,
  { cluster }: ClusterFolder,
  steps: readonly Step[],
  { hasAskedSource }: PreflightResult,
): Promise<readonly Finding[]> {
  if (hasAskedSource) return [];
  const { probeUpgradeSource } = await import("@gpve/talos/preflight/check-network.ts");
  return probeUpgradeSource(cluster, steps, await cli.io.probes());
}

export function driverDeps(cli: Cli, { folder }: ClusterFolder): DriverDeps {
  return { connect: (options) => cli.io.connect(options), clock: cli.io.clock, folder, keys: around(cli) };
}

/** With what to do about them. */
export async function forPrograms(findings: readonly Finding[]): Promise<readonly (Finding & Reasons)[]> {
  const { explained } = await import("@gpve/talos/findings/explained.ts");
  return findings.map(explained);
}

const mending = async (findings: readonly Finding[]): Promise<readonly string[]> => {
  const { mendCommands } = await import("@gpve/talos/preflight/mend-commands.ts");
  return mendCommands(findings);
};

export async function printFindings(cli: Cli, findings: readonly Finding[]): Promise<void> {
  if (findings.length === 0) return;
  cli.out.text(
    cli.out.table(findings, [
      { header: "SEVERITY", field: "severity" },
      { header: "ABOUT", field: "subject" },
      { header: "EVIDENCE", field: "evidence", whole: true },
      { header: "ID", field: "id" },
    ]),
  );
  await noteReasons(cli, findings);
  const commands = await mending(findings);
  if (commands.length > 0) cli.out.note("On a node of the platform this gives what is missing:");
  for (const command of commands) cli.out.note(`  ${command}`);
}
