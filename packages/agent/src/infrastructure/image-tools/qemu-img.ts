// qemu-img by argv. Formats are always named: an image is never asked what it is.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { BlockNode, DiskFormat } from "@gpve/domain/storage/block-node.ts";
import type { StorageSnapshot, StorageWork } from "@gpve/domain/storage/plugin.ts";
import { imageFiles, imageName, type LayeredImage } from "./image-node.ts";
import type { ImageTools, ToolFile } from "./image-tools.ts";
import type { EmptyImage } from "./empty-image.ts";
import { writeOverlay } from "./qcow2-overlay.ts";

export type Preallocation = "off" | "metadata" | "falloc" | "full";

/** Copying a large disk takes as long as it takes; cancelling goes through the signal. */
const SECTOR = 512;
const NO_TIMEOUT_MS = 2 ** 31 - 1;

export class QemuImg {
  readonly #tools: ImageTools;
  readonly #preallocation: Preallocation | undefined;

  /** What it makes or grows reserves space as `preallocation` says. */
  constructor(tools: ImageTools, preallocation: Preallocation | undefined) {
    this.#tools = tools;
    this.#preallocation = preallocation;
  }

  /** A row of bytes without anything in it needs no program. */
  create(image: EmptyImage, format: DiskFormat, size: number, work: StorageWork = {}): Promise<void> {
    if (preallocationFor(format, this.#preallocation) === "off" && format === "raw") return grow(image, size);
    const options = preallocationOption(format, this.#preallocation);
    return this.#make(["create", "-q", "-f", format, ...options, image.path, `${size}`], image, work);
  }

  /** An empty image needs no program, unless its space is to be reserved; the base is not opened even then (`-u`). */
  createLinked(
    image: EmptyImage,
    base: { readonly reference: string; readonly format: DiskFormat; readonly size: number },
    work: StorageWork = {},
  ): Promise<void> {
    const { reference, format, size } = base;
    const options = linkedOptions(format, this.#preallocation);
    if (options.length === 0)
      return writeOverlay(image.file, { size, backingFile: reference, backingFormat: format });
    const below = ["-u", "-b", reference, "-F", format];
    return this.#make(
      ["create", "-q", "-f", "qcow2", ...below, ...options, image.path, `${size}`],
      image,
      work,
    );
  }

  /** Reports progress; the target is an empty file of ours. */
  convert(
    source: LayeredImage & { readonly snapshot?: string },
    target: { readonly path: string; readonly format: DiskFormat },
    work: StorageWork = {},
  ): Promise<void> {
    return this.#run(
      [
        ...convertArguments(source, work),
        "-O",
        target.format,
        ...preallocationOption(target.format, this.#preallocation),
        imageName(source),
        target.path,
      ],
      [{ path: target.path, access: "rw" }, ...imageFiles(source, "ro")],
      { ...work, isNew: true },
    );
  }

  /** The same into a device that is there already and reads as zeroes. */
  convertInto(
    source: LayeredImage & { readonly snapshot?: string },
    { driver, filename = "" }: BlockNode,
    work: StorageWork = {},
  ): Promise<void> {
    const target = `driver=raw,file.driver=${driver},file.filename=${filename.replaceAll(",", ",,")}`;
    return this.#run(
      [
        ...convertArguments(source, work),
        "-n",
        "--target-is-zero",
        "--target-image-opts",
        imageName(source),
        target,
      ],
      [{ path: filename, access: "rw" }, ...imageFiles(source, "ro")],
      { ...work, isNew: true },
    );
  }

  resize(image: LayeredImage, size: number, work: StorageWork = {}): Promise<void> {
    const mode = preallocationFor(image.format, this.#preallocation);
    // With "metadata" QEMU gives the new part clusters that were freed before, with their old content: it must read as
    // zeroes. "falloc" and "full" take new ones from the end of the file.
    const options = mode === "falloc" || mode === "full" ? [`--preallocation=${mode}`] : [];
    const argv = ["resize", "-q", ...options, imageName(image), `${size}`];
    return this.#run(argv, imageFiles(image, "rw"), work);
  }

  snapshot(
    verb: "-c" | "-a" | "-d",
    name: string,
    image: LayeredImage,
    work: StorageWork = {},
  ): Promise<void> {
    return this.#run(["snapshot", "-q", verb, name, imageName(image)], imageFiles(image, "rw"), work);
  }

  /** QEMU neither goes back to a snapshot nor grows an image beside dirty bitmaps that it does not trust. */
  async dropBitmaps(image: LayeredImage, which: "all" | "inconsistent"): Promise<void> {
    const info = (await this.info(image)) as {
      "format-specific"?: { data?: { bitmaps?: readonly { name: string; flags: readonly string[] }[] } };
    };
    for (const { name, flags } of info["format-specific"]?.data?.bitmaps ?? []) {
      if (which === "all" || flags.includes("in-use"))
        await this.#run(["bitmap", "--remove", imageName(image), name], imageFiles(image, "rw"), {});
    }
  }

  async snapshots(image: LayeredImage): Promise<StorageSnapshot[]> {
    const { snapshots } = await this.info(image);
    return (Array.isArray(snapshots) ? snapshots : []).map((each: Record<string, unknown>) => ({
      name: String(each["name"]),
      ctime: Number(each["date-sec"]),
    }));
  }

  async virtualSize(image: LayeredImage): Promise<number> {
    return Number((await this.info(image))["virtual-size"]);
  }

  async info({ node, format, region }: LayeredImage): Promise<Record<string, unknown>> {
    // Opens the image alone, and refuses to be told what lies below it.
    const image = { node, format, region };
    const argv = ["info", "-U", "--output=json", imageName(image)];
    const { stdout } = await this.#tools("qemu-img", argv, imageFiles(image, "ro")).catch((err: unknown) => {
      throw clearer(err);
    });
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  #make(argv: readonly string[], { path }: EmptyImage, work: StorageWork): Promise<void> {
    return this.#run(argv, [{ path, access: "rw" }], { ...work, isNew: true });
  }

  async #run(argv: readonly string[], files: readonly ToolFile[], work: ToolWork): Promise<void> {
    await this.#tools("qemu-img", argv, files, optionsOf(work)).catch((err: unknown) => {
      throw clearer(err);
    });
  }
}

function convertArguments(
  { snapshot }: { readonly snapshot?: string },
  { bytesPerSecond }: StorageWork,
): string[] {
  return [
    "convert",
    "-p",
    ...(bytesPerSecond === undefined ? [] : ["-r", `${bytesPerSecond}`]),
    // QEMU changes nothing of a snapshot while its guest writes on: what it holds the image for does not matter.
    ...(snapshot === undefined ? [] : ["-U", "-l", `snapshot.name=${snapshot}`]),
  ];
}

/** To whole sectors, as qemu-img does. */
async function grow({ file }: EmptyImage, size: number): Promise<void> {
  await file.truncate(Math.ceil(size / SECTOR) * SECTOR).catch((err: unknown) => {
    throw clearer(err);
  });
}

interface ToolWork extends StorageWork {
  /** A new image is nobody's after a crash: whoever makes it then must not be at it while it is taken away. */
  readonly isNew?: boolean;
}

function optionsOf(work: ToolWork) {
  return {
    timeoutMs: NO_TIMEOUT_MS,
    ...(work.isNew === true ? { diesWithUs: true } : {}),
    ...given({ signal: work.signal }),
    onLine: (line: string) => {
      const fraction = progressOf(line);
      if (fraction !== undefined) work.progress?.(fraction);
    },
  };
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
