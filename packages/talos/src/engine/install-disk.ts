// Which disk an installer would write to: looked at before it is told, for what it writes over is gone.
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { TalosMachine } from "../client/talos-client.ts";
import type { Machine } from "../cluster/machine.ts";
import { SYSTEM_DEVICE } from "../plan/guest-config.ts";

const GIB = 1024 ** 3;

interface SeenDisk {
  readonly path: string;
  readonly gib: number;
}

/** Exactly one disk of the size that the file says, and it is the one that the configuration names. */
export async function refuseOtherDisk(
  client: Pick<TalosMachine, "resources">,
  { name, size }: Pick<Machine, "name" | "size">,
): Promise<void> {
  const disks = [...(await client.resources("runtime", "Disks.block.talos.dev")).values()].flatMap(diskOf);
  const fitting = disks.filter(({ gib }) => gib === size.diskGiB);
  if (fitting.length === 1 && fitting[0]?.path === SYSTEM_DEVICE) return;
  const seen = disks.map(({ path, gib }) => `${path} of ${gib} GiB`).join(", ");
  throw new AppError(
    "object.conflict",
    `${name} would be installed to ${SYSTEM_DEVICE} of ${size.diskGiB} GiB, and has ${seen || "no disk"}`,
    { data: { finding: "install-disk-unsure", next: "Nothing was installed." } },
  );
}

function diskOf(value: unknown): readonly SeenDisk[] {
  if (!isObject(value) || value["cdrom"] === true || value["readonly"] === true) return [];
  const { dev_path: path, size } = value;
  const isDisk = typeof path === "string" && /^\/dev\/(sd|vd|nvme|xvd)/.test(path);
  return isDisk ? [{ path, gib: Math.round(Number(size) / GIB) }] : [];
}
