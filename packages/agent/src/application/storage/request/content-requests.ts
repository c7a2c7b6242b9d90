// Requests about what lies on a storage: who may see, make, change and remove which volume.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { isContentType, type ImageFormat, type VolumeType } from "@gpve/domain/storage/content.ts";
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
import type { OpenVolume } from "../node-storages.ts";
import { COPY_IMAGE, type CopyArgs } from "../receive-file.ts";
import { REMOVE_VOLUME } from "../remove-volume.ts";
import { submit, askedVolume, type StorageRequestDeps } from "./storage-requests.ts";

type Volume = "/nodes/{node}/storage/{storage}/content/{volume}";

export async function listContent(
  deps: StorageRequestDeps,
  { storage, content, vmid }: PveParams["GET /nodes/{node}/storage/{storage}/content"],
  ctx: RequestContext,
): Promise<readonly object[]> {
  const { plugin, definition } = await deps.storages.open(storage);
  if (content !== undefined && !isContentType(content)) return [];
  const has = contentOf(definition);
  const rows = await plugin.list({
    ...(content === undefined ? {} : { content: listedAs(content, has) }),
    ...given({ vmid }),
  });
  return rows
    .map((row) => ({ ...row, content: shownContent(deps, row) }))
    .filter((row) => has.has(row.content) && (content === undefined || row.content === content))
    .filter((row) => mayUseVolume(ctx.access, factsOf(storage, row)))
    .map((row) => shownVolume(storage, row))
    .toSorted(byVolid);
}

export async function allocateVolume(
  { storages, engine }: StorageRequestDeps,
  asked: PveParams["POST /nodes/{node}/storage/{storage}/content"],
  ctx: RequestContext,
): Promise<string> {
  const { storage, vmid, filename, format } = asked;
  const size = sizeInBytes(asked.size);
  const named = /\.(raw|qcow2|vmdk)$/.exec(filename)?.[1] as ImageFormat | undefined;
  if (named !== undefined && format !== undefined && named !== format)
    throw badStorageParameter("format", `different storage formats (${format} != ${named})`);
  const { plugin, definition } = await storages.open(storage);
  const chosen = named ?? format ?? (definition.options["format"] as ImageFormat | undefined) ?? "raw";
  // Without a name it is the next one of the guest's disks.
  const name = filename === "" ? undefined : filename;
  const volname = await engine.withResource(`volume/${storage}:${vmid}/${filename}`, {}, () =>
    plugin.alloc({ vmid, format: chosen, size, ...given({ name }) }, { signal: ctx.signal }),
  );
  return `${storage}:${volname}`;
}

export async function showVolume(
  deps: StorageRequestDeps,
  { storage, volume }: PveParams[`GET ${Volume}`],
  ctx: RequestContext,
): Promise<object> {
  const found = askedVolume(deps, storage, volume);
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
}

export async function changeVolume(
  deps: StorageRequestDeps,
  asked: PveParams[`PUT ${Volume}`],
  ctx: RequestContext,
): Promise<null> {
  const found = askedVolume(deps, asked.storage, asked.volume);
  requireVolumeAccess(ctx.access, found.facts);
  const { plugin, volname } = found;
  await plugin.activate();
  if (asked.notes !== undefined) await plugin.setNotes(volname, asked.notes);
  if (asked.protected !== undefined) {
    if (asked.protected) await requireRoomForProtected(found, ctx.access);
    await plugin.setProtected(volname, asked.protected);
  }
  return null;
}

/** Nothing when it is gone within the time that was asked for; else the UPID. */
export async function requestRemoval(
  deps: StorageRequestDeps,
  { storage, volume, delay }: PveParams[`DELETE ${Volume}`],
  ctx: RequestContext,
): Promise<string | null> {
  const found = askedVolume(deps, storage, volume);
  requireVolumeRemoval(ctx.access, found.facts);
  const owner = found.name.vmid === undefined ? "" : `${found.name.vmid}@`;
  const upid = await submit(deps, ctx, {
    type: REMOVE_VOLUME,
    resources: [`volume/${found.volid}`],
    args: { volid: found.volid },
    subject: `${owner}${found.plugin.storage}`,
  });
  return delay === undefined || delay === 0 ? upid : endedWithin(deps, upid, delay * 1000);
}

export async function requestCopy(
  deps: StorageRequestDeps,
  { storage, volume, target, target_node: node }: PveParams[`POST ${Volume}`],
  ctx: RequestContext,
): Promise<string> {
  if (node !== undefined && node !== deps.storages.node)
    throw storageUnsupported(`copying a volume to another node ('${node}') is not supported by this version`);
  const source = askedVolume(deps, storage, volume);
  const goal = askedVolume(deps, storage, target);
  const args: CopyArgs = { kind: "copy", source: source.volid, target: goal.volid };
  return submit(deps, ctx, {
    type: COPY_IMAGE,
    resources: [`volume/${source.volid}`, `volume/${goal.volid}`],
    args,
    subject: "",
  });
}

/** Disks of containers lie among the images; which they are is known by their owner. */
function shownContent(deps: StorageRequestDeps, row: VolumeInfo): VolumeType {
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
async function endedWithin(deps: StorageRequestDeps, upid: string, ms: number): Promise<string | null> {
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
