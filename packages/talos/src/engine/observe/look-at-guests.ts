// Machines as the platforms show them: the file's, and those that are ours by tag and identity and no longer in it.
import { given } from "@gpve/contracts/given.ts";
import { BALANCER_TAG, balancerUuid } from "../../cluster/balancer.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import { type Machine, type Pinned, roleOf } from "../../cluster/machine.ts";
import { TEMPLATE_TAG } from "../../cluster/templates.ts";
import { machineUuid } from "../../machine/identity.ts";
import { isOurs, type KnownGuest, uuidOf } from "../../preflight/check-guests.ts";
import { clusterTag, type ObservedProvider } from "../../preflight/preflight.ts";
import type { SeenGuest, SeenMachine, World } from "../world.ts";

/** Nothing is known yet of what runs inside. */
export function guestsWorld(
  cluster: Cluster,
  machines: readonly Machine[],
  observed: readonly ObservedProvider[],
  now: number,
  formerly: Readonly<Record<string, Pinned>> = {},
): World {
  const tag = clusterTag(cluster);
  const seen = new Map<string, SeenMachine>();
  for (const machine of machines) {
    const provider = observed.find(({ name }) => name === machine.provider);
    const known = provider?.guests.find((each) => isOurs(each, machine, tag));
    const { name, hostname, role } = machine;
    seen.set(name, withGuest({ name, hostname, role }, provider?.name ?? "", known));
  }
  const wanted = new Set(machines.map(({ uuid }) => uuid));
  for (const provider of observed) {
    for (const known of provider.guests.filter((each) => mayBeLeftOver(cluster, each, wanted))) {
      const name = formerName(cluster, provider.name, known, formerly);
      if (name === undefined || seen.has(name)) continue;
      const { name: hostname } = known.guest;
      const role = roleOf(cluster.metadata.name, name);
      seen.set(name, withGuest({ name, hostname, role }, provider.name, known));
    }
  }
  return {
    now,
    images: new Map(
      observed.flatMap(({ name, images, sharesImages }): readonly (readonly [string, readonly string[]])[] =>
        sharesImages
          ? [[name, [...images.values()].flat()]]
          : [...images].map(([host, volumes]) => [`${name}/${host}`, volumes]),
      ),
    ),
    templates: observed.flatMap(({ templates }) => templates),
    balancer: observed
      .flatMap(({ name, guests }) => guests.flatMap((known) => balancerIn(cluster, name, known)))
      .at(0),
    vmids: new Map(
      observed.map(({ name, observation }) => [name, new Set(observation.guests.map(({ vmid }) => vmid))]),
    ),
    sharingDisks: new Set(observed.filter(({ sharesDisks }) => sharesDisks).map(({ name }) => name)),
    sharingImages: new Set(observed.filter(({ sharesImages }) => sharesImages).map(({ name }) => name)),
    machines: seen,
    kubernetes: undefined,
    snapshotAt: undefined,
  };
}

function balancerIn(cluster: Cluster, provider: string, { guest, config }: KnownGuest): readonly SeenGuest[] {
  const isOurBalancer =
    !guest.isTemplate &&
    guest.tags.includes(clusterTag(cluster)) &&
    guest.tags.includes(BALANCER_TAG) &&
    uuidOf(config) === balancerUuid(cluster.metadata.name);
  const place = { host: guest.host, vmid: guest.vmid };
  return isOurBalancer ? [{ provider, place, isRunning: guest.isRunning, config }] : [];
}

function mayBeLeftOver(
  cluster: Cluster,
  { guest, config }: KnownGuest,
  wanted: ReadonlySet<string>,
): boolean {
  const { tags, isTemplate } = guest;
  const isOther = isTemplate || tags.includes(TEMPLATE_TAG) || tags.includes(BALANCER_TAG);
  return !isOther && tags.includes(clusterTag(cluster)) && !wanted.has(uuidOf(config) ?? "");
}

/** Pools may have had so many machines more than now. */
const MORE = 100;
const MOST_PLANES = 9;

/**
 * The machine that a guest is, by the identity that names give: the guest's own name is the hostname, which may be another.
 * Of one that cannot be read, its place has to do. undefined: none of ours.
 */
function formerName(
  { metadata, pools }: Cluster,
  provider: string,
  { guest, config, unread }: KnownGuest,
  formerly: Readonly<Record<string, Pinned>>,
): string | undefined {
  const known = Object.entries(formerly);
  if (unread !== undefined)
    return known.find(([, each]) => each.vmid === guest.vmid && each.provider === provider)?.[0];
  const uuid = uuidOf(config);
  const isIts = (name: string): boolean => machineUuid(metadata.name, name) === uuid;
  const numbered = (pool: string, most: number): string | undefined =>
    Array.from({ length: most }, (_none, at) => `${metadata.name}-${pool}-${at + 1}`).find(isIts);
  const name = [guest.name, ...known.map(([each]) => each)].find(isIts) ?? numbered("cp", MOST_PLANES);
  if (name !== undefined) return name;
  return pools.map((pool) => numbered(pool.name, pool.count + MORE)).find((each) => each !== undefined);
}

function withGuest(
  machine: Pick<SeenMachine, "name" | "hostname" | "role">,
  provider: string,
  known: KnownGuest | undefined,
): SeenMachine {
  if (known === undefined) return { ...machine, guest: undefined, talos: { state: "off" } };
  const { guest, config, unread } = known;
  const place = { host: guest.host, vmid: guest.vmid };
  const seen: SeenGuest = { provider, place, isRunning: guest.isRunning, config, ...given({ unread }) };
  return {
    ...machine,
    guest: seen,
    talos: guest.isRunning ? { state: "silent", reason: "not asked" } : { state: "off" },
  };
}
