// From what the file wants and what was observed to the steps between: images, then machines, then what is left over.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { imageFile } from "../image/image-file.ts";
import { machineUuid } from "../machine/identity.ts";
import { isOurs, type KnownGuest, uuidOf } from "../preflight/check-guests.ts";
import { error, type Finding } from "../preflight/finding-report.ts";
import { clusterTag, type ObservedProvider } from "../preflight/preflight.ts";
import { compareGuest, diskGib, isHot } from "./compare-guest.ts";
import { guestSettings, newGuest, SYSTEM_DISK } from "./guest-config.ts";
import type { Step } from "./plan-steps.ts";

export interface Plan {
  readonly steps: readonly Step[];
  /** What cannot be done as the file asks. */
  readonly findings: readonly Finding[];
}

export function makePlan(
  cluster: Cluster,
  machines: readonly Machine[],
  observed: readonly ObservedProvider[],
): Plan {
  const parts = observed.flatMap((seen) => {
    const own = machines.filter(({ provider }) => provider === seen.name);
    const planned = own.map((machine) => planMachine(cluster, machine, seen.guests));
    const creates = planned.some(({ steps }) => steps.some(({ kind }) => kind === "guest.create"));
    return [
      { steps: creates ? imageSteps(cluster, own, seen) : [], findings: [] },
      ...planned,
      { steps: leftOver(cluster, machines, seen), findings: [] },
    ];
  });
  return {
    steps: parts.flatMap(({ steps }) => steps),
    findings: parts.flatMap(({ findings }) => findings),
  };
}

function imageSteps(cluster: Cluster, own: readonly Machine[], seen: ObservedProvider): readonly Step[] {
  const provider = cluster.providers.find(({ name }) => name === seen.name);
  const storage = provider?.storage.image ?? "";
  const files = new Map(
    own.map(({ arch, extensions, host }) => {
      const file = imageFile(cluster, arch, extensions);
      return [file.name, { ...file, host }];
    }),
  );
  return [...files.values()]
    .filter(({ name }) => !seen.images.includes(`${storage}:import/${name}`))
    .map(({ name, url, host }) => ({
      kind: "image.ensure",
      impact: "safe",
      provider: seen.name,
      subject: name,
      host,
      storage,
      url,
    }));
}

function planMachine(cluster: Cluster, machine: Machine, guests: readonly KnownGuest[]): Plan {
  const { name, provider, size } = machine;
  const known = guests.find((each) => isOurs(each, machine, clusterTag(cluster)));
  const common = { provider, subject: name };
  if (known === undefined) {
    const place = { host: machine.host, vmid: machine.vmid };
    return {
      steps: [
        { kind: "guest.create", impact: "safe", ...common, place, config: newGuest(cluster, machine) },
        { kind: "guest.resize", impact: "safe", ...common, place, disk: SYSTEM_DISK, gib: size.diskGiB },
        { kind: "guest.start", impact: "safe", ...common, place },
      ],
      findings: [],
    };
  }
  const { guest, config } = known;
  const place = { host: guest.host, vmid: guest.vmid };
  const changes = compareGuest(guestSettings(cluster, machine), config);
  const gib = diskGib(config[SYSTEM_DISK]);
  const impact = isHot(changes) || !guest.isRunning ? "safe" : "disruptive";
  return {
    steps: [
      ...(changes.length === 0 ? [] : [{ kind: "guest.change", impact, ...common, place, changes } as const]),
      ...(gib !== undefined && gib < size.diskGiB
        ? [
            {
              kind: "guest.resize",
              impact: "safe",
              ...common,
              place,
              disk: SYSTEM_DISK,
              gib: size.diskGiB,
            } as const,
          ]
        : []),
      ...(guest.isRunning ? [] : [{ kind: "guest.start", impact: "safe", ...common, place } as const]),
    ],
    findings:
      gib !== undefined && gib > size.diskGiB
        ? [error("disk-shrinks", name, `${SYSTEM_DISK} has ${gib} GiB, the file says ${size.diskGiB}`)]
        : [],
  };
}

/** Ours by tag and by the identity of their own name, and no longer in the file. */
function leftOver(cluster: Cluster, machines: readonly Machine[], seen: ObservedProvider): readonly Step[] {
  const wanted = new Set(machines.map(({ uuid }) => uuid));
  return seen.guests
    .filter(({ guest, config }) => {
      const uuid = uuidOf(config);
      return (
        !guest.isTemplate &&
        guest.tags.includes(clusterTag(cluster)) &&
        uuid === machineUuid(cluster.metadata.name, guest.name) &&
        !wanted.has(uuid)
      );
    })
    .map(({ guest }) => ({
      kind: "guest.delete",
      impact: "destructive",
      provider: seen.name,
      subject: guest.name,
      place: { host: guest.host, vmid: guest.vmid },
    }));
}
