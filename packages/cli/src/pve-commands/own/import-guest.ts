// `qm import`: a VM of what an import source (an OVA, a VM elsewhere) says of itself.
import { isObject } from "@gpve/client/response-error.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { followTask } from "../follow-task.ts";
import { valueText } from "../output/value-text.ts";

export async function importGuest(session: PveSession, values: OptionValues): Promise<void> {
  const { vmid, source, storage, format, "live-import": isLive, dryrun, delete: without, ...given } = values;
  const volume = String(source);
  const [from] = volume.split(":");
  if (from === undefined || from === volume) {
    throw new AppError("request.invalid", `unable to parse volume ID '${volume}'`, { pveStatus: 500 });
  }
  const { pve } = await session.client();
  const node = await session.node();
  const path = "/nodes/{node}/storage/{storage}/import-metadata";
  const { data } = await pve.call("GET", path, { node, storage: from, volume });
  const config = { ...configOf(data, String(storage), valueText(format)), ...given };
  const dropped = new Set(valueText(without).split(/[,; ]+/));
  const kept = Object.fromEntries(Object.entries(config).filter(([key]) => !dropped.has(key)));
  if (dryrun === "1") {
    const options = Object.entries(kept).toSorted(([one], [other]) => (one < other ? -1 : 1));
    session.line("# dry-run – the resulting create command for the import would be:");
    session.line(
      [`qm create ${String(vmid)}`, ...options.map(([key, value]) => `  --${key} ${String(value)}`)].join(
        " \\\n",
      ),
    );
    return;
  }
  const answer = await pve.call("POST", "/nodes/{node}/qemu", {
    ...kept,
    ...(isLive === "1" ? { "live-restore": true } : {}),
    node,
    vmid: String(vmid),
  });
  if (isUpid(answer.data)) await followTask(session, answer.data);
}

function configOf(metadata: unknown, storage: string, format: string): Record<string, string> {
  const facts = isObject(metadata) ? metadata : {};
  const part = (name: string): [string, unknown][] =>
    Object.entries(isObject(facts[name]) ? facts[name] : {});
  const as = format === "" ? "" : `,format=${format}`;
  const config: Record<string, string> = {};
  for (const [key, value] of part("create-args")) config[key] = valueText(value);
  for (const [key, value] of part("net")) {
    const settings = Object.entries(isObject(value) ? value : {}).toSorted(([one], [other]) =>
      one < other ? -1 : 1,
    );
    config[key] = settings.map(([name, setting]) => `${name}=${valueText(setting)}`).join(",");
  }
  for (const [key, value] of part("disks")) {
    const volume = isObject(value) ? value["volid"] : value;
    config[key] =
      key === "efidisk0"
        ? `${storage}:1${as},efitype=4m`
        : `${storage}:0${as},import-from=${valueText(volume)}`;
  }
  return config;
}
