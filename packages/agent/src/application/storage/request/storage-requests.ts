// What requests about storages share: what they need, and how a request becomes a volume or a task.
import { given } from "@gpve/contracts/given.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import { badStorageParameter } from "@gpve/domain/storage/failures.ts";
import type { VolumeFacts } from "@gpve/domain/storage/volume-access.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine, SubmitRequest } from "@gpve/kit/operation/engine.ts";
import type { NodeStorages, OpenVolume } from "../node-storages.ts";
import type { StorageFiles, UrlFetcher } from "../ports.ts";
import type { GuestKind } from "@gpve/domain/guest/guest-kind.ts";

export interface StorageRequestDeps {
  readonly storages: NodeStorages;
  readonly files: StorageFiles;
  readonly fetcher: UrlFetcher;
  readonly engine: OperationEngine;
  readonly clock: Clock;
  /** Bodies of uploads lie here, and nowhere else. */
  readonly uploads: string;
  /** As what the volumes of a guest are shown. */
  readonly volumeContent: (vmid: number) => GuestKind["volumeContent"];
}

/** A volume as a path names it: with its storage, or without where the path has one. */
export function askedVolume(
  deps: StorageRequestDeps,
  storage: string | undefined,
  volume: string,
): OpenVolume & { facts: VolumeFacts } {
  const found = deps.storages.volume(realVolumeId(storage, volume));
  const { volid, name, plugin } = found;
  const facts = {
    storage: plugin.storage,
    volid,
    type: name.type,
    ...given({ vmid: name.vmid }),
  };
  return { ...found, facts };
}

function realVolumeId(storage: string | undefined, volume: string): string {
  if (!volume.includes(":")) {
    if (storage === undefined) {
      throw badStorageParameter("volume", "no storage specified - incomplete volume ID");
    }
    return `${storage}:${volume}`;
  }
  const parsed = parseVolumeId(volume);
  if (parsed === undefined) throw badStorageParameter("volume", `unable to parse volume ID '${volume}'\n`);
  if (storage !== undefined && parsed.storage !== storage) {
    throw badStorageParameter("volume", `storage ID mismatch (${parsed.storage} != ${storage})\n`);
  }
  return volume;
}

export async function submit(
  deps: Pick<StorageRequestDeps, "engine">,
  ctx: RequestContext,
  request: Omit<SubmitRequest, "actor">,
): Promise<string> {
  const { upid } = await deps.engine.submit({
    ...request,
    ...askedBy(ctx),
  });
  return upid;
}
