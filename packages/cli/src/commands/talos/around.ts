// What all `talos` commands share: the file they are about and where it lies.
import type { FindingId } from "@gpve/talos/findings/catalogue.ts";
import type { ClusterFolder, Surroundings } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const DEFAULT_FILE = "cluster.yaml";

export const fileOption: OptionSpec = {
  flags: "-f, --file <file>",
  about: `the cluster's file (${DEFAULT_FILE})`,
};

/** As people write it who know it from other tools; run-cli.ts reads it. */
export const jsonOption: OptionSpec = { flags: "--json", about: "as --output json" };

export const fileOf = (input: Input): string => input.text("file") ?? DEFAULT_FILE;

export function around({ io }: Cli): Surroundings {
  return { env: io.env, homeDir: io.homeDir, cwd: io.cwd, now: io.clock.now() };
}

/** Loaded when needed: other commands must not wait for it. */
export async function openFolder(cli: Cli, input: Input): Promise<ClusterFolder> {
  const { openClusterFolder } = await import("@gpve/talos/folder/cluster-folder.ts");
  return openClusterFolder(fileOf(input), around(cli));
}

/** Says with the failure why it may be and what to do; programs get it as they get other findings. */
export async function explaining<T>(cli: Cli, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    const { findingsOf } = await import("@gpve/talos/findings/explained.ts");
    const findings = findingsOf(err);
    if (findings.length > 0) {
      if (!cli.out.forPeople) cli.out.data({ ok: false, findings });
      await noteReasons(cli, findings);
    }
    throw err;
  }
}

/** Beside a report, never in the middle of it. */
export async function noteReasons(cli: Cli, found: readonly { readonly id: FindingId }[]): Promise<void> {
  if (found.length === 0) return;
  const { reasonLines } = await import("@gpve/talos/findings/explained.ts");
  for (const line of reasonLines(found)) cli.out.note(line);
  const ids = new Set(found.map(({ id }) => id));
  cli.out.note(`More on this: gpvectl talos explain ${ids.size === 1 ? [...ids].join("") : "ID"}`);
}
