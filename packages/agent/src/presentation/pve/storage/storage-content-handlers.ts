// /nodes/{node}/storage/{storage}/content and what brings files into it.
import { dirname } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import {
  isContentType,
  ISO_NAME,
  normalizeFileName,
  TEMPLATE_NAME,
  UPLOAD_IMPORT_NAME,
  type ImageFormat,
  type VolumeType,
} from "@gpve/domain/storage/content.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import {
  badStorageParameter,
  storageMissing,
  storageRefused,
  storageUnsupported,
} from "@gpve/domain/storage/failures.ts";
import type { VolumeInfo, VolumeSize } from "@gpve/domain/storage/plugin.ts";
import {
  mayUseVolume,
  protectedLimit,
  requireVolumeAccess,
  requireVolumeRemoval,
  type VolumeFacts,
} from "@gpve/domain/storage/volume-access.ts";
import type { OpenVolume } from "../../../application/storage/node-storages.ts";
import type { ChecksumAlgorithm } from "../../../application/storage/ports.ts";
import {
  COPY_IMAGE,
  DOWNLOAD,
  type Checksum,
  type CopyArgs,
  type DownloadArgs,
  type UploadArgs,
} from "../../../application/storage/receive-file.ts";
import { REMOVE_VOLUME } from "../../../application/storage/remove-volume.ts";
import { submit, volumeOf, type StorageHandlerDeps } from "./storage-requests.ts";

export function createStorageContentHandlers(deps: StorageHandlerDeps): PveHandlers {
  const { storages, engine } = deps;
  return {
    "GET /nodes/{node}/storage/{storage}/content": async ({ storage, content, vmid }, ctx) => {
      const { plugin, definition } = await storages.open(storage);
      if (content !== undefined && !isContentType(content)) return [];
      const rows = await plugin.list({
        ...(content === undefined ? {} : { content: listedAs(content, contentOf(definition)) }),
        ...given({ vmid }),
      });
      const has = contentOf(definition);
      return rows
        .map((row) => ({ ...row, content: shownContent(deps, row) }))
        .filter((row) => has.has(row.content) && (content === undefined || row.content === content))
        .filter((row) => mayUseVolume(ctx.access, factsOf(storage, row)))
        .map((row) => shownVolume(storage, row))
        .toSorted(byVolid);
    },

    "POST /nodes/{node}/storage/{storage}/content": async (
      { storage, vmid, filename, size, format },
      ctx,
    ) => {
      const bytes = sizeInBytes(size);
      const named = /\.(raw|qcow2|vmdk)$/.exec(filename)?.[1] as ImageFormat | undefined;
      if (named !== undefined && format !== undefined && named !== format) {
        throw badStorageParameter("format", `different storage formats (${format} != ${named})`);
      }
      const { plugin, definition } = await storages.open(storage);
      const chosen = named ?? format ?? (definition.options["format"] as ImageFormat | undefined) ?? "raw";
      const volname = await engine.withResource(`volume/${storage}:${vmid}/${filename}`, {}, () =>
        plugin.alloc(
          // Without a name it is the next one of the guest's disks.
          { vmid, format: chosen, size: bytes, ...given({ name: filename === "" ? undefined : filename }) },
          { signal: ctx.signal },
        ),
      );
      return `${storage}:${volname}`;
    },

    "GET /nodes/{node}/storage/{storage}/content/{volume}": async ({ storage, volume }, ctx) => {
      const found = volumeOf(deps, storage, volume);
      requireVolumeAccess(ctx.access, found.facts);
      const { plugin, volname } = found;
      await plugin.activate();
      const { size, used, format } = await sizeOf(found);
      const shown = { path: plugin.path(volname), size, used, format };
      if (found.name.type !== "backup") return shown;
      return {
        ...shown,
        notes: await plugin.notes(volname),
        protected: await plugin.isProtected(volname),
      };
    },

    "PUT /nodes/{node}/storage/{storage}/content/{volume}": async (params, ctx) => {
      const found = volumeOf(deps, params.storage, params.volume);
      requireVolumeAccess(ctx.access, found.facts);
      const { plugin, volname } = found;
      await plugin.activate();
      if (params.notes !== undefined) await plugin.setNotes(volname, params.notes);
      if (params.protected !== undefined) {
        if (params.protected) await requireRoomForProtected(found, ctx.access);
        await plugin.setProtected(volname, params.protected);
      }
      return null;
    },

    "DELETE /nodes/{node}/storage/{storage}/content/{volume}": async ({ storage, volume, delay }, ctx) => {
      const found = volumeOf(deps, storage, volume);
      requireVolumeRemoval(ctx.access, found.facts);
      const owner = found.name.vmid === undefined ? "" : `${found.name.vmid}@`;
      const upid = await submit(deps, ctx, {
        type: REMOVE_VOLUME,
        resources: [`volume/${found.volid}`],
        args: { volid: found.volid },
        subject: `${owner}${found.plugin.storage}`,
      });
      return delay === undefined || delay === 0 ? upid : endedWithin(deps, upid, delay * 1000);
    },

    "POST /nodes/{node}/storage/{storage}/content/{volume}": (
      { storage, volume, target, target_node },
      ctx,
    ) => {
      if (target_node !== undefined && target_node !== storages.node) {
        throw storageUnsupported(
          `copying a volume to another node ('${target_node}') is not supported by this version`,
        );
      }
      const source = volumeOf(deps, storage, volume);
      const goal = volumeOf(deps, storage, target);
      const args: CopyArgs = { kind: "copy", source: source.volid, target: goal.volid };
      return submit(deps, ctx, {
        type: COPY_IMAGE,
        resources: [`volume/${source.volid}`, `volume/${goal.volid}`],
        args,
        subject: "",
      });
    },

    "POST /nodes/{node}/storage/{storage}/upload": async (params, ctx) => {
      const { tmpfilename } = params;
      if (tmpfilename === undefined || dirname(tmpfilename) !== deps.uploads) {
        throw storageRefused("missing temporary file name");
      }
      try {
        const volid = receivedVolume(deps, params.storage, params.content, params.filename);
        const checksum = checksumOf(params.checksum, params["checksum-algorithm"]);
        const args: UploadArgs = {
          kind: "upload",
          volid,
          spooled: tmpfilename,
          ...given({ checksum }),
        };
        return await submit(deps, ctx, {
          type: COPY_IMAGE,
          resources: [`volume/${volid}`],
          args,
          subject: "",
        });
      } catch (err) {
        await deps.files.remove(tmpfilename);
        throw err;
      }
    },

    "POST /nodes/{node}/storage/{storage}/download-url": async (params, ctx) => {
      const { storage, content, compression } = params;
      const { definition } = storages.find(storage);
      if (!contentOf(definition).has(content)) {
        throw storageRefused(`storage '${storage}' is not configured for content-type '${content}'`);
      }
      if (/^https?:\/\/[^/]*@/.test(params.url)) {
        throw badStorageParameter("url", "user name and password in a URL are not accepted");
      }
      const volid = receivedVolume(deps, storage, content, params.filename);
      const checksum = checksumOf(params.checksum, params["checksum-algorithm"]);
      const args: DownloadArgs = {
        volid,
        url: params.url,
        verifyCertificates: params["verify-certificates"] ?? true,
        ...given({ compression, checksum }),
      };
      return submit(deps, ctx, {
        type: DOWNLOAD,
        resources: [`volume/${volid}`],
        args,
        subject: normalizeFileName(params.filename),
      });
    },
  };
}

/** Disks of containers lie among the images; which they are is known by their owner. */
function shownContent(deps: StorageHandlerDeps, row: VolumeInfo): VolumeType {
  if (row.content !== "images" || row.vmid === undefined) return row.content;
  return deps.volumeContent(row.vmid);
}

/** Only of images is known what they take and what they build on. */
function shownVolume(
  storage: string,
  { volname, used, parent, ...row }: VolumeInfo,
): { readonly volid: string } & Record<string, unknown> {
  const shown = { volid: `${storage}:${volname}`, ...row };
  if (row.content === "images" || row.content === "rootdir")
    return { ...shown, used, parent: parent ?? null };
  return parent === undefined ? shown : { ...shown, parent };
}

function byVolid(a: { readonly volid: string }, b: { readonly volid: string }): number {
  const [left, right] = [a.volid.toLowerCase(), b.volid.toLowerCase()];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** What is not there, or has nothing in it, has no size. */
async function sizeOf({ plugin, volid, volname }: OpenVolume): Promise<VolumeSize> {
  const facts = await plugin.info(volname).catch((err: unknown) => {
    if (isAppError(err, "object.not_found")) throw storageMissing(`volume_size_info on '${volid}' failed`);
    throw err;
  });
  if (facts.size === 0) throw storageRefused(`volume_size_info on '${volid}' failed`);
  return facts;
}

function listedAs(content: string, has: ReadonlySet<VolumeType>): VolumeType[] {
  if (content === "rootdir" || content === "images") {
    return (["images", "rootdir"] as const).filter((each) => has.has(each));
  }
  return content === "none" ? [] : [content as VolumeType];
}

function factsOf(storage: string, row: VolumeInfo): VolumeFacts {
  return {
    storage,
    volid: `${storage}:${row.volname}`,
    type: row.content,
    ...given({ vmid: row.vmid }),
  };
}

/** The volume that an upload or download will become. */
function receivedVolume(
  deps: StorageHandlerDeps,
  storage: string,
  content: "iso" | "vztmpl" | "import",
  given: string,
): string {
  const name = normalizeFileName(given);
  const fits = { iso: ISO_NAME, vztmpl: TEMPLATE_NAME, import: UPLOAD_IMPORT_NAME }[content].test(name);
  if (!fits || name.startsWith(".")) {
    const text = content === "import" ? "invalid filename or wrong extension" : "wrong file extension";
    throw badStorageParameter("filename", text);
  }
  const { definition } = deps.storages.find(storage);
  if (!contentOf(definition).has(content)) {
    throw storageRefused(`storage '${storage}' does not support '${content}' content`);
  }
  return `${storage}:${content}/${name}`;
}

function checksumOf(
  value: string | undefined,
  algorithm: ChecksumAlgorithm | undefined,
): Checksum | undefined {
  return value === undefined || algorithm === undefined ? undefined : { value, algorithm };
}

/** A plain number is KiB. */
function sizeInBytes(size: string): number {
  const match = /^(\d+)([MG]?)$/.exec(size);
  if (match === null) throw badStorageParameter("size", `unable to parse size '${size}'`);
  const unit = { "": 1024, M: 1024 ** 2, G: 1024 ** 3 }[match[2] ?? ""] ?? 1024;
  return Number(match[1]) * unit;
}

async function requireRoomForProtected(
  { plugin, definition, name, volname }: OpenVolume,
  access: AccessView,
): Promise<void> {
  const limit = protectedLimit(definition, access);
  if (limit < 0 || name.vmid === undefined) return;
  if (await plugin.isProtected(volname)) return;
  const backups = await plugin.list({ content: ["backup"], vmid: name.vmid });
  const kind = backups.find((backup) => backup.volname === volname)?.subtype;
  const count = backups.filter(
    (backup) => backup.protected === true && (kind === undefined || backup.subtype === kind),
  ).length;
  if (count >= limit) {
    throw storageRefused(
      `The number of protected backups per guest is limited to ${limit} on storage '${plugin.storage}'`,
    );
  }
}

/** null when the work ended well in time, the task's name while it still runs. */
async function endedWithin(deps: StorageHandlerDeps, upid: string, ms: number): Promise<string | null> {
  const stop = new AbortController();
  const cancel = deps.clock.after(ms, () => stop.abort(new AppError("request.timeout", "not ended yet")));
  try {
    const { state, exitStatus } = await deps.engine.wait(upid, stop.signal);
    if (state === "done") return null;
    throw new AppError("operation.failed", exitStatus ?? "unexpected status", { pveStatus: 500 });
  } catch (err) {
    if (stop.signal.aborted) return upid;
    throw err;
  } finally {
    cancel();
  }
}
