// `qm disk rescan`: volumes of a VM that its configuration does not name are named there as unused ones.
import { pveRows } from "@gpve/client/pve-client.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { valueText } from "../output/value-text.ts";
import { freeUnused, readGuestConfig } from "./guest-config.ts";

export async function rescanDisks(session: PveSession, values: OptionValues): Promise<void> {
  const isDry = values["dryrun"] === "1";
  if (isDry) session.line("NOTE: running in dry-run mode, won't write changes out!");
  session.line("rescan volumes...");
  const { pve } = await session.client();
  const node = await session.node();
  const rows = async (path: string, more: Readonly<Record<string, string>> = {}) =>
    pveRows((await pve.call("GET", path, { node, ...more })).data, path);
  const storages = await rows("/nodes/{node}/storage", { content: "images", enabled: "1" });
  const guests = await rows("/nodes/{node}/qemu");
  const volumes = await Promise.all(
    storages.map(({ storage }) =>
      rows("/nodes/{node}/storage/{storage}/content", { storage: valueText(storage), content: "images" }),
    ),
  );
  for (const { vmid: id } of guests) {
    const vmid = valueText(id);
    if (values["vmid"] !== undefined && values["vmid"] !== vmid) continue;
    let config = await readGuestConfig(session, vmid);
    for (const volume of volumes.flat()) {
      const volid = valueText(volume["volid"]);
      if (valueText(volume["vmid"]) !== vmid || isNamed(config, volid)) continue;
      const key = freeUnused(config);
      session.line(`VM ${vmid} add unreferenced volume '${volid}' as '${key}' to config`);
      config = { ...config, [key]: volid };
      if (!isDry) await pve.call("PUT", "/nodes/{node}/qemu/{vmid}/config", { node, vmid, [key]: volid });
    }
  }
}

function isNamed(config: Readonly<Record<string, string>>, volid: string): boolean {
  return Object.values(config).some((value) => value.split(",").some((part) => part.endsWith(volid)));
}
