// What is about to be stopped or deleted is looked at once more: it must be ours.
import { AppError } from "@gpve/contracts/errors.ts";
import { BALANCER_TAG, balancerUuid } from "../cluster/balancer.ts";
import { TEMPLATE_TAG, templateUuid } from "../cluster/templates.ts";
import type { Driver, GuestConfig, GuestPlace } from "../driver/driver.ts";
import { clonesOf } from "../driver/linked-clones.ts";
import { machineUuid } from "../machine/identity.ts";
import { isMarked, uuidOf } from "../preflight/check-guests.ts";
import { clusterTag } from "../preflight/preflight.ts";
import type { Desired } from "./desired.ts";

export async function refuseOthers(
  driver: Driver,
  { cluster, machines }: Desired,
  name: string,
  place: GuestPlace,
): Promise<void> {
  const config = await driver.guestConfig(place);
  const uuid = machineUuid(cluster.metadata.name, name);
  const isPlaced = machines.some((machine) => machine.name === name && machine.vmid === place.vmid);
  const isItself = uuidOf(config) === uuid || (isPlaced && isMarked(config, uuid));
  if (tagsOf(config).includes(clusterTag(cluster)) && isItself) return;
  throw notOurs(name, place);
}

/** Its disks may be what others' disks read from: that is asked once more too. */
export async function refuseOtherTemplates(
  driver: Driver,
  { cluster }: Desired,
  name: string,
  place: GuestPlace,
): Promise<void> {
  const uuid = templateUuid(cluster.metadata.name, name);
  const config = await requireOurs(driver, name, place, uuid, [TEMPLATE_TAG, clusterTag(cluster)]);
  const clones = await clonesOf(driver, place, config);
  if (clones.length === 0) return;
  throw new AppError(
    "object.conflict",
    `linked clones read from the template ${name}: ${clones.join(", ")}`,
    {
      data: { finding: "template-in-use", next: "It was left as it is." },
    },
  );
}

export async function refuseOtherBalancers(
  driver: Driver,
  { cluster }: Desired,
  name: string,
  place: GuestPlace,
): Promise<void> {
  const uuid = balancerUuid(cluster.metadata.name);
  await requireOurs(driver, name, place, uuid, [BALANCER_TAG, clusterTag(cluster)]);
}

async function requireOurs(
  driver: Driver,
  name: string,
  place: GuestPlace,
  uuid: string,
  wanted: readonly string[],
): Promise<GuestConfig> {
  const config = await driver.guestConfig(place);
  const tags = tagsOf(config);
  if (uuidOf(config) === uuid && wanted.every((tag) => tags.includes(tag))) return config;
  throw notOurs(name, place);
}

const tagsOf = (config: GuestConfig): readonly string[] => (config["tags"] ?? "").split(/[;, ]+/);

function notOurs(name: string, { vmid }: GuestPlace): AppError {
  return new AppError("object.conflict", `VMID ${vmid} is not ${name}: it was left as it is`, {
    data: { finding: "vmid-taken" },
  });
}
