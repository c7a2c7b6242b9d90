import { readFile, realpath } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";

/** `is_mountpoint`: nothing may be written below a mount point whose file system is away. */
export async function requireMounted(
  storage: string,
  root: string,
  setting: unknown,
  mounts: () => Promise<string> = () => readFile("/proc/self/mountinfo", "utf8"),
): Promise<void> {
  if (typeof setting !== "string" || /^(?:no|off|false|0)$/i.test(setting)) return;
  const point = /^(?:yes|on|true|1)$/i.test(setting) ? root : setting;
  // A link to a mount point is as good as the mount point.
  const real = await realpath(point).catch(() => point);
  if ((await mounts()).split("\n").some((line) => line.split(" ")[4] === real)) return;
  throw new AppError(
    "node.unavailable",
    `unable to activate storage '${storage}' - directory is expected to be a mount point but is not mounted: '${point}'`,
    { pveStatus: 500 },
  );
}
