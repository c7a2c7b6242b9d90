// `pvesm path`, `pvesm extractconfig`, `pvesm prune-backups`.
import { isObject } from "@gpve/client/response-error.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
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
  const { data } = await pve.call("GET", "/nodes/{node}/storage/{storage}/content/{volume}", {
    node: await session.node(),
    storage: storageOf(volume),
    volume,
  });
  session.line(valueText(isObject(data) ? data["path"] : undefined));
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
