// Images and guests: what the file wants and is not there, and what is there otherwise.
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import type { Machine } from "../../cluster/machine.ts";
import { cloneMark, cloneMode } from "../../cluster/templates.ts";
import { imageFile, imageVolume, ownSum } from "../../image/image-file.ts";
import { isHot } from "../../plan/compare-guest.ts";
import { diskSizes, guestChanges } from "../../plan/guest-changes.ts";
import { EMPTY_DRIVE, isoDrive, newGuest, SYSTEM_DISK } from "../../plan/guest-config.ts";
import type { GuestStep } from "../../plan/plan-steps.ts";
import { cloneChanges } from "../../plan/template-config.ts";
import { uuidOf } from "../../preflight/check-guests.ts";
import { error } from "../../preflight/finding-report.ts";
import { doing, pairs, replaced, stopping, type Rule, type Situation } from "../situation.ts";
import { lackingTemplates, templateOf } from "./decide-templates.ts";
import type { Desired } from "../desired.ts";
import { configured, imagePlace, type SeenGuest } from "../world.ts";

/** Disks that would have to shrink are left alone, and told. */
export const refuseShrinking: Rule = (situation) => {
  const found = pairs(situation).flatMap(({ machine, seen }) => {
    const larger = diskSizes(machine, seen.guest?.config ?? {}).filter(
      ({ gib, wantedGib }) => gib > wantedGib,
    );
    return larger.map(({ disk, gib, wantedGib }) =>
      error("disk-shrinks", machine.name, `${disk} has ${gib} GiB, the file says ${wantedGib}`),
    );
  });
  return found.length === 0 ? undefined : stopping(...found);
};

/** A node that is renamed would be there twice. */
export const refuseRenaming: Rule = (situation) => {
  const nodes = situation.world.kubernetes?.nodes.map(({ name }) => name) ?? [];
  const found = pairs(situation).flatMap(({ machine, seen }) => {
    const before = seen.guest?.config["name"] ?? "";
    const isNode = configured(seen) !== undefined && nodes.includes(before);
    return isNode && before !== machine.hostname && !nodes.includes(machine.hostname)
      ? [
          error(
            "hostname-changes",
            machine.name,
            `it is the node ${before}, the file says ${machine.hostname}`,
          ),
        ]
      : [];
  });
  return found.length === 0 ? undefined : stopping(...found);
};

/** A machine that is replaced is as any other from the moment on in which nothing of the old one is left. */
export const recordReplaced: Rule = (situation) => {
  const name = replaced(situation);
  if (name === undefined) return undefined;
  const seen = situation.world.machines.get(name);
  return seen?.guest === undefined
    ? doing([{ kind: "record.replaced", impact: "safe", subject: name }])
    : undefined;
};

/** A machine that is reset is as any other from the moment on in which it has no configuration. */
export const recordReset: Rule = ({ desired, world }) => {
  const [name] = desired.resetting;
  if (name === undefined) return undefined;
  const seen = world.machines.get(name);
  return seen?.guest === undefined || seen.talos.state === "maintenance"
    ? doing([{ kind: "record.reset", impact: "safe", subject: name }])
    : undefined;
};

export const makeImages: Rule = (situation) => {
  const { desired, world } = situation;
  const { offlineDir, archive } = desired.cluster.image;
  // What a machine is to be made from anew is there before it goes: an image may be refused.
  const leaving = desired.machines.filter(({ name }) => desired.replacing.includes(name));
  // With templates, nothing else is made from images.
  const users =
    cloneMode(desired.cluster) === undefined
      ? [
          ...pairs(situation).flatMap(({ machine, seen }) => (seen.guest === undefined ? [machine] : [])),
          ...leaving,
        ]
      : lackingTemplates(situation).map(({ machine, host }) => ({ ...machine, host }));
  const steps = new Map<string, GuestStep>();
  for (const machine of users) {
    const file = imageFile(desired.cluster, machine.arch, machine.extensions);
    const { name, url, content } = file;
    const provider = desired.cluster.providers.find((each) => each.name === machine.provider);
    const storage = provider?.storage.image ?? "";
    const place = imagePlace(world, machine.provider, machine.host);
    if (world.images.get(place)?.includes(imageVolume(storage, file)) === true) continue;
    const key = `${place} ${name}`;
    steps.set(key, {
      kind: "image.ensure",
      impact: "safe",
      provider: machine.provider,
      subject: name,
      host: machine.host,
      storage,
      content,
      url,
      ...given({ sha256: archive === null ? sumOf(desired, name) : undefined }),
      ...given({ file: archive !== null ? url : offlineDir === null ? undefined : join(offlineDir, name) }),
    });
  }
  return doing([...steps.values()]);
};

const sumOf = ({ cluster, pinned = {} }: Desired, name: string): string | undefined =>
  ownSum(cluster, name) ?? pinned[name];

/** Made, grown and started; one that is stopped is brought to what the file says first. */
export const makeGuests: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen: { guest } }) => {
      if (guest === undefined) return newSteps(situation, machine);
      return guest.isRunning ? growSteps(machine, guest) : stoppedSteps(situation, machine, guest);
    }),
  );

/** What takes effect at once is done at once. */
export const changeHot: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen: { guest } }): readonly GuestStep[] => {
      const changes = guest === undefined ? [] : changesOf(situation, machine, guest);
      return guest === undefined || changes.length === 0 || !isHot(changes)
        ? []
        : [{ kind: "guest.change", impact: "safe", ...common(machine, guest), changes }];
    }),
  );

/** Talos is on the disk: the ISO it came from must not be there when somebody changes the boot order. */
export const detachIso: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen }): readonly GuestStep[] => {
      const drive = isoDrive(machine);
      const lies = seen.guest?.config[drive] ?? "";
      const isInstalled = configured(seen)?.isReady === true;
      if (seen.guest === undefined || !isInstalled || !/:iso\/talos-/.test(lies)) return [];
      const changes = [{ key: drive, from: lies, to: EMPTY_DRIVE }];
      return [{ kind: "guest.change", impact: "safe", ...common(machine, seen.guest), changes }];
    }),
  );

/** Whether its guest differs in what takes effect when the machine starts again: it is brought to it while it is off. */
export function waitsForStop(situation: Situation, machine: Machine, guest: SeenGuest): boolean {
  return changesOf(situation, machine, guest).length > 0;
}

export function stopStep(machine: Machine, guest: SeenGuest): GuestStep {
  return { kind: "guest.stop", impact: "disruptive", ...common(machine, guest), comesBack: true };
}

function newSteps(situation: Situation, machine: Machine): readonly GuestStep[] {
  const { desired } = situation;
  const place = { host: machine.host, vmid: machine.vmid };
  const of = { provider: machine.provider, subject: machine.name, place };
  if (cloneMode(desired.cluster) !== undefined) return cloneSteps(situation, machine, of);
  return [
    { kind: "guest.create", impact: "safe", ...of, config: newGuest(desired.cluster, machine) },
    // An empty disk is made as large as it is wanted.
    ...(desired.cluster.image.boot === "iso"
      ? []
      : [
          {
            kind: "guest.resize",
            impact: "safe",
            ...of,
            disk: SYSTEM_DISK,
            gib: machine.size.diskGiB,
          } as const,
        ]),
    { kind: "guest.start", impact: "safe", ...of },
  ];
}

function cloneSteps(
  situation: Situation,
  machine: Machine,
  of: Pick<GuestStep, "subject"> & { readonly provider: string; readonly place: SeenGuest["place"] },
): readonly GuestStep[] {
  const { cluster } = situation.desired;
  const template = templateOf(situation, machine);
  if (template === undefined) return [];
  return [
    {
      kind: "guest.clone",
      impact: "safe",
      ...of,
      from: template.place,
      template: template.name,
      isFull: cloneMode(cluster) === "full",
      hostname: machine.hostname,
      mark: cloneMark(machine.uuid),
      pool: cluster.providers.find(({ name }) => name === machine.provider)?.pool ?? null,
    },
    { kind: "guest.change", impact: "safe", ...of, changes: cloneChanges(cluster, machine, template.config) },
    { kind: "guest.resize", impact: "safe", ...of, disk: SYSTEM_DISK, gib: machine.size.diskGiB },
    { kind: "guest.start", impact: "safe", ...of },
  ];
}

function stoppedSteps(situation: Situation, machine: Machine, guest: SeenGuest): readonly GuestStep[] {
  const of = common(machine, guest);
  // Somebody was stopped right after he had cloned it.
  const isBare = uuidOf(guest.config) !== machine.uuid;
  const changes = isBare
    ? cloneChanges(situation.desired.cluster, machine, guest.config)
    : changesOf(situation, machine, guest);
  return [
    ...(changes.length === 0 ? [] : [{ kind: "guest.change", impact: "safe", ...of, changes } as const]),
    ...growSteps(machine, guest),
    { kind: "guest.start", impact: "safe", ...of },
  ];
}

function growSteps(machine: Machine, guest: SeenGuest): readonly GuestStep[] {
  const of = common(machine, guest);
  return diskSizes(machine, guest.config)
    .filter(({ gib, wantedGib }) => gib < wantedGib)
    .map(({ disk, wantedGib }) => ({ kind: "guest.resize", impact: "safe", ...of, disk, gib: wantedGib }));
}

function changesOf({ desired }: Situation, machine: Machine, guest: SeenGuest) {
  return guestChanges(desired.cluster, machine, guest.config);
}

function common(machine: Machine, { provider, place }: SeenGuest) {
  return { provider, subject: machine.name, place };
}
