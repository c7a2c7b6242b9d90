// Cards whose configuration names no MAC address, as those that another tool wrote: without one QEMU gives all of them
// the same. What a card gets once is kept, and is the same again where an old configuration comes back.
import { withMac } from "@gpve/domain/vm/change/new-vm.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";

export interface CardAddressesPorts {
  readonly configs: VmConfigs;
  readonly ids: Ids;
}

export async function keepAddresses(
  host: CardAddressesPorts,
  vmid: number,
  config: VmConfig,
  log: (line: string) => void,
): Promise<VmConfig> {
  const bare = listNets(config.values).filter(({ net }) => net.macaddr === undefined);
  if (bare.length === 0) return config;
  for (const { key } of bare)
    log(`${key}: has no MAC address: it is given ${addressOf(host, vmid, config.values, key)}`);
  return host.configs.change(vmid, (current) => ({
    ...current,
    values: {
      ...current.values,
      ...Object.fromEntries(
        bare.map(({ key }) => [
          key,
          withMac(current.values[key] ?? "", () => addressOf(host, vmid, current.values, key)),
        ]),
      ),
    },
  }));
}

/** Begins as every new address of this cluster; the rest is the VM's own. */
function addressOf(host: CardAddressesPorts, vmid: number, values: VmValues, key: string): string {
  const smbios = values["smbios1"];
  const uuid = smbios === undefined ? undefined : readVmProperty("smbios1", smbios, "smbios1").uuid;
  const own = host.ids
    .sha256Hex(`${uuid ?? `${host.configs.node}/${vmid}`}/${key}`)
    .slice(0, 6)
    .toUpperCase();
  return [host.ids.newMac().slice(0, "XX:XX:XX".length), ...(own.match(/../g) ?? [])].join(":");
}
