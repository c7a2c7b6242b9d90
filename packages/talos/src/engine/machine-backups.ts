// Backups of machines with all that lies on their disks, by the platform's own means, and their way back. Only what is
// proven to be of this cluster is written over or deleted.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Machine } from "../cluster/machine.ts";
import { durationMs } from "../cluster/duration.ts";
import type { Driver, GuestBackup, GuestPlace } from "../driver/driver.ts";
import { drainNode, type DrainPolicy } from "../kubernetes/drain-node.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import { machineUuid } from "../machine/identity.ts";
import { uuidOf } from "../preflight/check-guests.ts";
import type { Desired } from "./desired.ts";
import { refuseOthers } from "./refuse-others.ts";
import type { World } from "./world.ts";

export interface BackupDeps {
  readonly desired: Desired;
  readonly world: World;
  readonly drivers: ReadonlyMap<string, Driver>;
  /** Told what is done next. */
  readonly note: (event: "begin" | "done", step: string) => void;
}

export interface MachineBackup extends Pick<GuestBackup, "volume" | "bytes"> {
  readonly machine: string;
  readonly at: string;
}

export interface MadeBackup extends MachineBackup {
  /** Its guest agent is asked to hold file systems still. */
  readonly isFrozen: boolean;
}

/** One after another: the cluster goes on while it is read. `keep`: older ones of a machine go once it has a new one. */
export async function backupMachines(
  deps: BackupDeps,
  { names, storage, keep }: { names: readonly string[]; storage: string; keep?: number | undefined },
): Promise<readonly MadeBackup[]> {
  const made: MadeBackup[] = [];
  const machines = deps.desired.machines.filter(({ name }) => names.length === 0 || names.includes(name));
  const unknown = names.filter((name) => machines.every((machine) => machine.name !== name));
  if (unknown.length > 0)
    throw new AppError("object.not_found", `the file has no machine ${unknown.join(", ")}`);
  for (const machine of machines) {
    const guest = deps.world.machines.get(machine.name)?.guest;
    if (guest === undefined) {
      if (names.length === 0) continue;
      throw new AppError("object.not_found", `${machine.name} is not there: there is nothing to back up`);
    }
    const driver = driverOf(deps, guest.provider);
    await refuseOthers(driver, deps.desired, machine.name, guest.place);
    const step = `guest.backup ${machine.name}`;
    deps.note("begin", step);
    const { agent = "0" } = await driver.guestConfig(guest.place);
    await driver.backupGuest(
      guest.place,
      storage,
      `${machine.name} of ${deps.desired.cluster.metadata.name}`,
    );
    deps.note("done", step);
    const own = await ownBackups(deps, machine, guest.place, driver, storage);
    const newest = own.at(-1);
    if (newest === undefined)
      throw new AppError("internal.error", `the backup of ${machine.name} is not in ${storage}`);
    if (keep !== undefined)
      for (const { volume } of own.slice(0, -keep)) await driver.deleteVolume(guest.place.host, volume);
    made.push({ ...shown(machine, newest), isFrozen: /^(enabled=)?1/.test(agent) });
  }
  return made;
}

export async function machineBackups(deps: BackupDeps, storage: string): Promise<readonly MachineBackup[]> {
  const found: MachineBackup[] = [];
  for (const machine of deps.desired.machines) {
    const { provider, place } = whereabouts(deps, machine);
    const own = await ownBackups(deps, machine, place, driverOf(deps, provider), storage);
    found.push(...own.map((backup) => shown(machine, backup)));
  }
  return found;
}

/** It is emptied, stopped and written over; what it was since the backup is lost. */
export async function restoreMachine(
  deps: BackupDeps & { readonly kubernetes: Kubernetes; readonly clock: Clock },
  { name, storage, volume }: { name: string; storage: string; volume?: string | undefined },
): Promise<string> {
  const { desired, world, note } = deps;
  const machine = desired.machines.find((each) => each.name === name);
  if (machine === undefined) throw new AppError("object.not_found", `the file has no machine ${name}`);
  if (machine.role === "controlplane")
    throw new AppError(
      "object.conflict",
      `${name} is a control plane: its etcd must not come from a backup`,
      {
        data: { finding: "backup-of-control-plane", next: `gpvectl talos replace ${name}` },
      },
    );
  const { provider, place } = whereabouts(deps, machine);
  const driver = driverOf(deps, provider);
  const chosen = volume ?? (await ownBackups(deps, machine, place, driver, storage)).at(-1)?.volume;
  if (chosen === undefined)
    throw new AppError("object.not_found", `there is no backup of ${name} in the storage ${storage}`, {
      data: { next: "See gpvectl talos backup list. Nothing was changed." },
    });
  if (!(await isOf(desired, machine, driver, place.host, chosen)))
    throw new AppError("object.conflict", `${chosen} is no backup of ${name}: another identity is in it`, {
      data: { finding: "backup-of-another", next: "Nothing was changed." },
    });
  const { guests } = await driver.observe([place.host]);
  const there = guests.find(({ vmid }) => vmid === place.vmid);
  if (there !== undefined) await refuseOthers(driver, desired, name, place);
  const node = world.kubernetes?.nodes.find((each) => each.name === machine.hostname);
  if (node?.isReady === true) await emptied(deps, desired, machine);
  const step = `guest.restore ${name}`;
  note("begin", step);
  if (there?.isRunning === true) await driver.stop(place);
  if (there !== undefined && (await driver.guestConfig(place))["protection"] === "1")
    await driver.changeGuest(place, { protection: "0" });
  await driver.restoreGuest(place, chosen);
  await driver.start(place);
  note("done", step);
  return chosen;
}

async function emptied(
  { kubernetes, clock, note }: { kubernetes: Kubernetes; clock: Clock; note: BackupDeps["note"] },
  { cluster }: Desired,
  { name, hostname, pool }: Machine,
): Promise<void> {
  const drain = cluster.pools.find((each) => each.name === pool)?.upgrade.drain;
  const timeoutMs = durationMs(drain?.timeout ?? "10m");
  const policy = (drain?.policy ?? "strict") as DrainPolicy;
  note("begin", `node.drain ${name}`);
  await drainNode(kubernetes, clock, { node: hostname, policy, timeoutMs });
  note("done", `node.drain ${name}`);
}

/** Where its guest is, or was to be. */
function whereabouts({ world }: BackupDeps, machine: Machine): { provider: string; place: GuestPlace } {
  const guest = world.machines.get(machine.name)?.guest;
  return guest ?? { provider: machine.provider, place: { host: machine.host, vmid: machine.vmid } };
}

/** Oldest first. A VMID is no proof: another guest may have had it. */
async function ownBackups(
  { desired }: BackupDeps,
  machine: Machine,
  { host, vmid }: GuestPlace,
  driver: Driver,
  storage: string,
): Promise<readonly GuestBackup[]> {
  const own: GuestBackup[] = [];
  for (const backup of await driver.backups(host, storage))
    if (backup.vmid === vmid && (await isOf(desired, machine, driver, host, backup.volume))) own.push(backup);
  return own;
}

async function isOf(
  { cluster }: Desired,
  { name }: Machine,
  driver: Driver,
  host: string,
  volume: string,
): Promise<boolean> {
  return uuidOf(await driver.backupConfig(host, volume)) === machineUuid(cluster.metadata.name, name);
}

function driverOf({ drivers }: BackupDeps, provider: string): Driver {
  const driver = drivers.get(provider);
  if (driver === undefined) throw new AppError("internal.error", `${provider} is not open`);
  return driver;
}

const shown = ({ name }: Machine, { volume, at, bytes }: GuestBackup): MachineBackup => ({
  machine: name,
  volume,
  bytes,
  at: new Date(at).toISOString(),
});
