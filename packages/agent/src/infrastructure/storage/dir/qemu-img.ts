// qemu-img by argv. Formats are always named: an image is never asked what it is.
import { basename, dirname } from "node:path";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { StorageWork } from "@gpve/domain/storage/plugin.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { writeOverlay } from "./qcow2-overlay.ts";

export type DiskFormat = "raw" | "qcow2" | "vmdk";

export function isDiskFormat(format: string): format is DiskFormat {
  return format === "raw" || format === "qcow2" || format === "vmdk";
}

/** A part of a file that is an image of its own. */
export interface Region {
  readonly offset: number;
  readonly size: number;
}

export type Preallocation = "off" | "metadata" | "falloc" | "full";

/** Copying a large disk takes as long as it takes; cancelling goes through the signal. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

export class QemuImg {
  readonly #exec: Exec;
  readonly #preallocation: Preallocation | undefined;

  /** What it makes or grows reserves space as `preallocation` says. */
  constructor(exec: Exec, preallocation: Preallocation | undefined) {
    this.#exec = exec;
    this.#preallocation = preallocation;
  }

  create(path: string, format: DiskFormat, size: number, work: StorageWork = {}): Promise<void> {
    const options = preallocationOption(format, this.#preallocation);
    return this.#run(["create", "-q", "-f", format, ...options, path, `${size}`], { ...work, isNew: true });
  }

  /** An empty image needs no program, unless its space is to be reserved. */
  createLinked(
    path: string,
    base: { readonly file: string; readonly format: DiskFormat; readonly size: number },
    work: StorageWork = {},
  ): Promise<void> {
    const options = linkedOptions(base.format, this.#preallocation);
    if (options.length === 0)
      return writeOverlay(path, { size: base.size, backingFile: base.file, backingFormat: base.format });
    return this.#run(
      ["create", "-q", "-f", "qcow2", "-b", base.file, "-F", base.format, ...options, basename(path)],
      { ...work, isNew: true },
      dirname(path),
    );
  }

  /** Reports progress; the target is a new file or is overwritten. */
  convert(
    source: {
      readonly path: string;
      readonly format: DiskFormat;
      readonly snapshot?: string;
      readonly region?: Region;
    },
    target: { readonly path: string; readonly format: DiskFormat },
    work: StorageWork = {},
  ): Promise<void> {
    return this.#run(
      [
        "convert",
        "-p",
        "-O",
        target.format,
        ...preallocationOption(target.format, this.#preallocation),
        ...(work.bytesPerSecond === undefined ? [] : ["-r", `${work.bytesPerSecond}`]),
        // QEMU changes nothing of a snapshot while its guest writes on: what it holds the image for does not matter.
        ...(source.snapshot === undefined ? [] : ["-U", "-l", `snapshot.name=${source.snapshot}`]),
        ...imageArguments(source.path, source.format, source.region),
        target.path,
      ],
      { ...work, isNew: true },
    );
  }

  resize(path: string, format: DiskFormat, size: number, work: StorageWork = {}): Promise<void> {
    const mode = preallocationFor(format, this.#preallocation);
    // With "metadata" QEMU gives the new part clusters that were freed before, with their old content: it must read as
    // zeroes. "falloc" and "full" take new ones from the end of the file.
    const options = mode === "falloc" || mode === "full" ? [`--preallocation=${mode}`] : [];
    return this.#run(["resize", "-q", ...options, "-f", format, path, `${size}`], work);
  }

  snapshot(verb: "-c" | "-a" | "-d", name: string, path: string, work: StorageWork = {}): Promise<void> {
    return this.#run(["snapshot", "-q", verb, name, path], work);
  }

  /** QEMU neither goes back to a snapshot nor grows an image beside dirty bitmaps that it does not trust. */
  async dropBitmaps(path: string, which: "all" | "inconsistent"): Promise<void> {
    const info = (await this.info(path, "qcow2")) as {
      "format-specific"?: { data?: { bitmaps?: readonly { name: string; flags: readonly string[] }[] } };
    };
    for (const { name, flags } of info["format-specific"]?.data?.bitmaps ?? []) {
      if (which === "all" || flags.includes("in-use"))
        await this.#run(["bitmap", "--remove", "-f", "qcow2", path, name], {});
    }
  }

  async info(path: string, format: DiskFormat): Promise<Record<string, unknown>> {
    const { stdout } = await this.#exec("qemu-img", [
      "info",
      "-U",
      "--output=json",
      "-f",
      format,
      path,
    ]).catch((err: unknown) => {
      throw clearer(err);
    });
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  /** A new image is nobody's after a crash: whoever makes it then must not be at it while it is taken away. */
  async #run(
    argv: readonly string[],
    work: StorageWork & { readonly isNew?: boolean },
    cwd?: string,
  ): Promise<void> {
    try {
      await this.#exec("qemu-img", argv, {
        timeoutMs: NO_TIMEOUT_MS,
        ...(work.isNew === true ? { diesWithUs: true } : {}),
        ...(work.signal === undefined ? {} : { signal: work.signal }),
        ...(cwd === undefined ? {} : { cwd }),
        onLine: (line) => {
          const fraction = progressOf(line);
          if (fraction !== undefined) work.progress?.(fraction);
        },
      });
    } catch (err) {
      throw clearer(err);
    }
  }
}

/** An image by its path, or one that is a part of a file, as qemu-img takes it. The format is always named. */
export function imageArguments(path: string, format: DiskFormat, region: Region | undefined): string[] {
  if (region === undefined) return ["-f", format, path];
  const options = [
    `driver=${format}`,
    "file.driver=raw",
    `file.offset=${region.offset}`,
    `file.size=${region.size}`,
    "file.file.driver=file",
    `file.file.filename=${path.replaceAll(",", ",,")}`,
  ];
  return ["--image-opts", options.join(",")];
}

/** "    (12.34/100%)" -> 0.1234 */
export function progressOf(line: string): number | undefined {
  const percent = /\((\d+(?:\.\d+)?)\/100%\)/.exec(line)?.[1];
  return percent === undefined ? undefined : Math.min(1, Number(percent) / 100);
}

/** qcow2 gets its metadata ahead of time unless told otherwise; raw has none. */
export function preallocationFor(
  format: DiskFormat,
  wanted: Preallocation | undefined,
): Preallocation | undefined {
  if (format === "qcow2") return wanted ?? "metadata";
  if (format === "raw") return wanted === undefined || wanted === "metadata" ? "off" : wanted;
  return undefined;
}

function preallocationOption(format: DiskFormat, wanted: Preallocation | undefined): string[] {
  const mode = preallocationFor(format, wanted);
  return mode === undefined ? [] : ["-o", `preallocation=${mode}`];
}

/**
 * Space of a linked clone is reserved only where the storage asks for it: by default a clone takes next to nothing.
 * QEMU can do that beside a base only with extended L2 entries, which tell reserved from written.
 */
function linkedOptions(base: DiskFormat, wanted: Preallocation | undefined): string[] {
  const mode = wanted === undefined ? undefined : preallocationFor(base, wanted);
  if (mode === undefined || mode === "off") return [];
  return ["-o", `extended_l2=on,cluster_size=128k,preallocation=${mode}`];
}

/** A full disk is told apart: it is the one failure a person can do something about at once. */
function clearer(err: unknown): unknown {
  if (!isAppError(err, "internal.error")) return err;
  if (/No space left on device|Disk quota exceeded/i.test(messageOf(err))) {
    return new AppError("capacity.exceeded", `not enough space on the storage: ${messageOf(err)}`, {
      cause: err,
      pveStatus: 500,
    });
  }
  return err;
}
