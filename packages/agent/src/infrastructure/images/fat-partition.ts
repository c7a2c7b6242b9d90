// A FAT partition inside a disk image, made and filled by mtools: neither root nor a loop device is needed.
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { Partition } from "./mbr.ts";

export interface FatFile {
  /** Its path in the partition, such as `EFI/BOOT/BOOTX64.EFI`. */
  readonly path: string;
  readonly content: { readonly file: string } | { readonly text: string };
}

export interface FatPartition {
  readonly disk: string;
  readonly partition: Partition;
  readonly label: string;
  /** Eight hexadecimal digits: equal input makes an equal image. */
  readonly serial: string;
  readonly files: readonly FatFile[];
}

/** The package with the tools that are called here. */
export const FAT_PACKAGE = "mtools";

/** `packages` is where FAT_PACKAGE was unpacked, `staging` a folder that is not there yet. */
export async function makeFatPartition(
  exec: Exec,
  packages: string,
  staging: string,
  { disk, partition, label, serial, files }: FatPartition,
): Promise<void> {
  const tools = join(packages, "usr/bin");
  const env = { ...MINIMAL_ENV, MTOOLS_SKIP_CHECK: "1" };
  const image = `${disk}@@${partition.startBytes}`;
  const [hidden, sectors] = [partition.startBytes / 512, partition.sizeBytes / 512];
  const geometry = ["-h", "255", "-s", "63", "-H", String(hidden), "-T", String(sectors)];
  await exec(join(tools, "mformat"), ["-i", image, ...geometry, "-N", serial, "-v", label, "::"], { env });
  for (const { path, content } of files) {
    const staged = join(staging, path);
    mkdirSync(dirname(staged), { recursive: true });
    if ("text" in content) writeFileSync(staged, content.text);
    else cpSync(content.file, staged);
  }
  const top = [...new Set(files.map(({ path }) => path.split("/")[0] ?? path))];
  for (const name of top)
    await exec(join(tools, "mcopy"), ["-s", "-i", image, join(staging, name), "::"], { env });
}
