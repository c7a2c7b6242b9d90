// What all `talos` commands share: the file they are about and where it lies.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { ClusterFolder, Surroundings } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";

export const DEFAULT_FILE = "cluster.yaml";

export const fileOption: OptionSpec = {
  flags: "-f, --file <file>",
  about: `the cluster's file (${DEFAULT_FILE})`,
};

export const fileOf = (input: Input): string => input.text("file") ?? DEFAULT_FILE;

export function around({ io }: Cli): Surroundings {
  return { env: io.env, homeDir: io.homeDir, cwd: io.cwd, now: io.clock.now() };
}

/** Loaded when needed: other commands must not wait for it. */
export async function openFolder(cli: Cli, input: Input): Promise<ClusterFolder> {
  const { openClusterFolder } = await import("@gpve/talos/folder/cluster-folder.ts");
  return openClusterFolder(fileOf(input), around(cli));
}

/** Says where to read more, once the failure itself has been told. */
export async function explaining<T>(cli: Cli, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (err) {
    const finding = isAppError(err) ? err.data["finding"] : undefined;
    if (typeof finding === "string") cli.out.note(`More on this: gpvectl talos explain ${finding}`);
    throw err;
  }
}
