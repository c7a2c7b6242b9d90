// Templates and clones in the platform's own keys.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { TEMPLATE_TAG, templateUuid } from "../cluster/templates.ts";
import type { GuestConfig } from "../driver/driver.ts";
import { compareGuest } from "./compare-guest.ts";
import { guestSettings, newGuest } from "./guest-config.ts";
import type { Change } from "./plan-steps.ts";

/** What only a machine has. */
const OWN = /^(ipconfig\d+|nameserver|searchdomain|onboot|scsi[1-9]|scsi1\d|hostpci\d+)$/;

/** `machine`: one of those that are cloned from it. */
export function newTemplate(cluster: Cluster, machine: Machine, name: string): GuestConfig {
  const whole = Object.entries(newGuest(cluster, machine));
  const tags = [`talos-${cluster.metadata.name}`, TEMPLATE_TAG, ...cluster.tags, ...cluster.templates.tags];
  return {
    ...Object.fromEntries(whole.filter(([key]) => !OWN.test(key))),
    name,
    // Each clone gets an address of its own.
    net0: `virtio,bridge=${cluster.network.bridge}`,
    smbios1: `uuid=${templateUuid(cluster.metadata.name, name)}`,
    tags: [...new Set(tags)].toSorted((a, b) => (a < b ? -1 : 1)).join(";"),
    description: `Talos ${cluster.versions.talos}, ${machine.role}: machines of ${cluster.metadata.name} are cloned from it.`,
  };
}

/** What makes the machine of a clone, its identity last in one and the same change. */
export function cloneChanges(cluster: Cluster, machine: Machine, actual: GuestConfig): readonly Change[] {
  const more = Object.entries(newGuest(cluster, machine)).filter(
    ([key]) => OWN.test(key) && actual[key] === undefined,
  );
  const changes = compareGuest(guestSettings(cluster, machine), actual);
  const known = new Set(changes.map(({ key }) => key));
  return [
    ...changes,
    ...more.filter(([key]) => !known.has(key)).map(([key, to]) => ({ key, from: null, to })),
    {
      key: "description",
      from: null,
      to: `Machine ${machine.name} of the Talos cluster ${cluster.metadata.name}.`,
    },
  ];
}
