// `pvesm path`, `pvesm extractconfig`, `pvesm prune-backups`.
import { join } from "node:path";
import { isObject } from "@gpve/client/response-error.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { relativePathOf, requireDirVolume } from "@gpve/domain/storage/dir-volume.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { followTask } from "../follow-task.ts";
import { valueText } from "../output/value-text.ts";

/** "local" of "local:iso/x.iso" */
export function storageOf(volume: string): string {
  const [storage = "", ...rest] = volume.split(":");
  if (rest.length === 0) {
    throw new AppError("request.invalid", `unable to parse volume ID '${volume}'`, { pveStatus: 500 });
  }
  return storage;
}

export async function volumePath(session: PveSession, values: OptionValues): Promise<void> {
  const volume = String(values["volume"]);
  const { pve } = await session.client();
  const place = { node: await session.node(), storage: storageOf(volume), volume };
  try {
    const { data } = await pve.call("GET", "/nodes/{node}/storage/{storage}/content/{volume}", place);
    session.line(valueText(isObject(data) ? data["path"] : undefined));
  } catch (err) {
    const path = await pathToBe(session, volume).catch(() => undefined);
    if (path === undefined) throw err;
    session.line(path);
  }
}

/** Where a file will lie that is not there yet: scripts ask, and then put it there. */
async function pathToBe(session: PveSession, volume: string): Promise<string | undefined> {
  const storage = storageOf(volume);
  const { pve } = await session.client();
  const { data } = await pve.call("GET", "/storage/{storage}", { storage });
  if (!isObject(data) || data["type"] !== "dir" || typeof data["path"] !== "string") return undefined;
  const moved = valueText(data["content-dirs"] ?? "")
    .split(",")
    .map((pair) => pair.split("="));
  const parsed = requireDirVolume(volume.slice(storage.length + 1));
  return join(data["path"], relativePathOf(parsed, Object.fromEntries(moved)));
}

export async function extractConfig(session: PveSession, values: OptionValues): Promise<void> {
  const { pve } = await session.client();
  const { data } = await pve.call("GET", "/nodes/{node}/vzdump/extractconfig", {
    node: await session.node(),
    volume: String(values["volume"]),
  });
  session.line(valueText(data));
}

export async function pruneBackups(session: PveSession, values: OptionValues): Promise<unknown> {
  const keep = Object.entries(values).filter(([name]) => name.startsWith("keep-"));
  const rule = keep.map(([name, value]) => `${name}=${String(value)}`).join(",");
  const { pve } = await session.client();
  const given = ["storage", "type", "vmid"].flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const params = {
    node: await session.node(),
    ...Object.fromEntries(given),
    ...(rule === "" ? {} : { "prune-backups": rule }),
  };
  const isDry = values["dry-run"] === "1";
  const path = "/nodes/{node}/storage/{storage}/prunebackups";
  const { data } = await pve.call(isDry ? "GET" : "DELETE", path, params);
  if (isUpid(data)) await followTask(session, data);
  return { dryrun: isDry ? 1 : 0, list: isDry ? data : [] };
}
