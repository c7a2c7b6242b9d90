// Dirty bitmaps of images that no QEMU has open, by qemu-img.
import type { ImageBitmap } from "@gpve/domain/backup/backup-ports.ts";
import type { Exec } from "@gpve/kit/exec.ts";

interface Qcow2Info {
  readonly "format-specific"?: {
    readonly data?: {
      readonly bitmaps?: readonly { readonly name: string; readonly flags: readonly string[] }[];
    };
  };
}

export async function imageBitmaps(exec: Exec, path: string): Promise<readonly ImageBitmap[]> {
  const { stdout } = await exec("qemu-img", ["info", "--output=json", "-f", "qcow2", path]);
  const { bitmaps = [] } = (JSON.parse(stdout) as Qcow2Info)["format-specific"]?.data ?? {};
  return bitmaps.map(({ name, flags }) => ({ name, inconsistent: flags.includes("in-use") }));
}

export async function addImageBitmap(
  exec: Exec,
  path: string,
  name: string,
  granularity: number,
): Promise<void> {
  await exec("qemu-img", ["bitmap", "--add", "-g", String(granularity), "-f", "qcow2", path, name]);
}

export async function removeImageBitmap(exec: Exec, path: string, name: string): Promise<void> {
  await exec("qemu-img", ["bitmap", "--remove", "-f", "qcow2", path, name]);
}
