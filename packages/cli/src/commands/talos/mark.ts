// The mark of a command that changes a cluster, where operators elsewhere see it.
import type { KeptMark } from "@gpve/talos/folder/kept-mark.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli } from "../../command.ts";
import type { Input } from "../../input.ts";
import type { Opened } from "./open.ts";
import { isGone, operatorName } from "./operator.ts";

export const takeOverOption = { flags: "--take-over", about: "even while somebody else's mark is fresh" };

/** Given back when the work is over. */
export async function withMark<T>(
  cli: Cli,
  input: Input,
  { cluster, machines }: ClusterFolder,
  { drivers }: Pick<Opened, "drivers">,
  work: (mark: KeptMark) => Promise<T>,
): Promise<T> {
  const { KeptMark } = await import("@gpve/talos/folder/kept-mark.ts");
  const mark = await KeptMark.take({
    cluster,
    machines,
    drivers,
    holder: operatorName(),
    isGone,
    now: () => cli.io.clock.now(),
    takeOver: input.flag("takeOver"),
  });
  try {
    return await work(mark);
  } finally {
    await mark.release();
  }
}
