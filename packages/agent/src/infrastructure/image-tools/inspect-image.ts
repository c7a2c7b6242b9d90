// Looks at an image that came from outside, before anything of ours opens it for real. First our own reading of the
// header refuses everything that names another file; then qemu-img looks at it confined, unable to write, with bounded
// memory and time.
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { fileNode, type DiskFormat } from "@gpve/domain/storage/block-node.ts";
import { openPlainFile } from "@gpve/kit/held-file.ts";
import { imageFiles, imageName, type Region } from "./image-node.ts";
import type { ImageTools } from "./image-tools.ts";
import { isQcow2, parseQcow2Header, QCOW2_HEADER_BYTES } from "./qcow2-header.ts";
import { judgeVmdk, looksLikeVmdk, VMDK_HEAD_BYTES } from "./vmdk-descriptor.ts";

export interface InspectedImage {
  readonly format: DiskFormat;
  readonly virtualSize: number;
}

/** Larger disks exist nowhere; a header that claims one wants to fill something. */
export const MAX_VIRTUAL_SIZE = 64 * 1024 ** 4;
const CHECK_TIMEOUT_MS = 300_000;
const CHECK_FOUND_CORRUPTION = 2;
/** Clusters that nothing uses: a waste of space, and no more. */
const CHECK_FOUND_LEAKS = 3;
const LIMITS = { as: 1024 ** 3, cpu: 20, fsize: 0, nofile: 64 };

interface InspectionDeps {
  readonly tools: ImageTools;
  readonly signal?: AbortSignal | undefined;
  readonly region?: Region | undefined;
}

export async function inspectImage(
  path: string,
  format: DiskFormat,
  deps: InspectionDeps,
): Promise<InspectedImage> {
  const { region, signal } = deps;
  await refuseReferences(path, format, { region });
  const image = { node: fileNode(path), format, region };
  const argv = ["info", "--output=json", imageName(image)];
  const { stdout } = await deps
    .tools("qemu-img", argv, imageFiles(image, "ro"), {
      limits: LIMITS,
      timeoutMs: 60_000,
      maxOutputBytes: 1024 * 1024,
      ...given({ signal }),
    })
    .catch((cause: unknown) => {
      throw refused(`qemu-img cannot read it as ${format}: ${messageOf(cause)}`, cause);
    });
  const facts = parseInfo(stdout);
  if (facts.format !== format) throw refused(`it is ${facts.format}, not ${format}`);
  if (facts.backing) throw refused("it builds on a backing file");
  if (facts.virtualSize > MAX_VIRTUAL_SIZE) {
    throw refused(`its virtual size of ${facts.virtualSize} bytes is absurd`);
  }
  if (format === "qcow2") await refuseBroken(path, deps);
  return { format, virtualSize: facts.virtualSize };
}

/** QEMU reads what lies behind the end of a file as zeros: a cut image would be copied without a word. */
async function refuseBroken(path: string, { tools, signal, region }: InspectionDeps): Promise<void> {
  const image = { node: fileNode(path), format: "qcow2", region } as const;
  const argv = ["check", "--output=json", imageName(image)];
  const { code, stdout } = await tools("qemu-img", argv, imageFiles(image, "ro"), {
    limits: LIMITS,
    timeoutMs: CHECK_TIMEOUT_MS,
    okCodes: [0, CHECK_FOUND_CORRUPTION, CHECK_FOUND_LEAKS],
    ...given({ signal }),
  }).catch((cause: unknown) => {
    throw refused(`qemu-img cannot check it: ${messageOf(cause)}`, cause);
  });
  if (code !== CHECK_FOUND_CORRUPTION) return;
  const { corruptions } = JSON.parse(stdout) as { readonly corruptions?: number };
  throw refused(`it is damaged: qemu-img check finds ${corruptions ?? "some"} corruptions`);
}

/**
 * Throws when the image names other files than the expected one, its base. Guests can write into their own images, so this
 * runs before every tool of ours opens one. Resolves to the name of its base.
 */
export async function refuseReferences(
  path: string,
  format: DiskFormat,
  {
    isExpected = () => false,
    region,
  }: { readonly isExpected?: (file: string) => boolean; readonly region?: Region | undefined } = {},
): Promise<string | undefined> {
  if (format === "raw") {
    // A link is refused also where there is no header to read.
    await (await openPlainFile(path)).close();
    return undefined;
  }
  if (format === "vmdk") {
    const verdict = judgeVmdk(await head(path, VMDK_HEAD_BYTES, region));
    if (!verdict.ok) throw refused(verdict.why);
    return undefined;
  }
  let header: ReturnType<typeof parseQcow2Header>;
  try {
    header = parseQcow2Header(await head(path, QCOW2_HEADER_BYTES, region));
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw refused(cause.message, cause);
  }
  if (header === undefined) throw refused("Image is not in qcow2 format");
  if (header.externalData) throw refused("it keeps its data in another file");
  if (header.backingFile !== undefined && !isExpected(header.backingFile)) {
    throw refused(`it builds on a backing file that is not its own (${JSON.stringify(header.backingFile)})`);
  }
  if (header.size > MAX_VIRTUAL_SIZE) throw refused(`its virtual size of ${header.size} bytes is absurd`);
  return header.backingFile;
}

/** Refuses a medium that is really a disk image naming other files: some tool might guess its format some day. */
export async function refuseDisguised(path: string): Promise<void> {
  const start = await head(path, VMDK_HEAD_BYTES);
  const guess = isQcow2(start) ? "qcow2" : looksLikeVmdk(start) ? "vmdk" : "raw";
  await refuseReferences(path, guess);
}

export async function head(path: string, bytes: number, region?: Region): Promise<Uint8Array> {
  const handle = await openPlainFile(path);
  try {
    const buffer = Buffer.alloc(Math.min(bytes, region?.size ?? bytes));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, region?.offset ?? 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

function parseInfo(stdout: string): { format: string; virtualSize: number; backing: boolean } {
  const info = JSON.parse(stdout) as Record<string, unknown>;
  const size = info["virtual-size"];
  if (typeof info["format"] !== "string" || typeof size !== "number")
    throw refused("qemu-img says nothing of it");
  return { format: info["format"], virtualSize: size, backing: info["backing-filename"] !== undefined };
}

function refused(why: string, cause?: unknown): AppError {
  return new AppError("request.invalid", `the image is refused: ${why}`, {
    pveStatus: 500,
    ...given({ cause }),
  });
}
