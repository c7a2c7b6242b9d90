// Starting a VM: pending changes take effect, then QEMU runs.
import { conflict } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { checkLock, hasLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { CommandOptions } from "@gpve/domain/vm/argv/command-input.ts";
import { hugepageNeeds } from "@gpve/domain/vm/argv/processor/hugepage-needs.ts";
import type { StartFromState } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import { endSuspend, suspendedState } from "@gpve/domain/vm/snapshot/suspend.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { applyCloudinit, type CloudinitDrivePorts } from "../config/cloudinit-drive.ts";
import { dropInconsistentBitmaps } from "../chain/track-changes.ts";
import { whyFailed } from "../helpers/listening-helper.ts";
import { startTpm, stopTpm } from "../helpers/tpm.ts";
import {
  startUserNetworks,
  stopUserNetworks,
  isUserNetwork,
  userNetworkRemarks,
} from "../helpers/user-network.ts";
import { startFileServers, stopFileServers, type VirtiofsPorts } from "../helpers/virtiofs.ts";
import { applyPendingChanges } from "../config/apply-pending.ts";
import { keepAddresses } from "./card-addresses.ts";
import { freeVolume } from "../config/free-volumes.ts";
import { runHook, type HookscriptPorts } from "../../guest/hookscript.ts";
import { continueFromRam, loadRam } from "../snapshot/ram-state.ts";
import { continueGuest } from "../power/continue-guest.ts";
import { microvmFiles } from "./microvm-files.ts";
import { withPrefix } from "../pve-words.ts";
import { planStart, type StartPlanPorts } from "./start-plan.ts";
import type { ReceivedVm, StartArgs, StartWork, VmStarter } from "./vm-starter.ts";
import {
  requireMappedHardware,
  takeDevices,
  type TakeDevicesPorts,
  type TakenDevices,
} from "./take-devices.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";
import { SAVED_RAM } from "../snapshot/ram-volume.ts";
import { attachedFile, volumeOf } from "../../guest/guest-storages.ts";
import type { BackupChains } from "@gpve/domain/backup/backup-chain.ts";
import type { RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";

export interface StartVmPorts
  extends CloudinitDrivePorts, HookscriptPorts, VirtiofsPorts, StartPlanPorts, TakeDevicesPorts {
  readonly processes: QemuProcesses;
  readonly chains: BackupChains;
  readonly ram: RamStreams;
}

const MIB = 1024 * 1024;

export function vmStarter(host: StartVmPorts): VmStarter {
  return {
    start: (args, work, beforeStart = async () => undefined) => startVm(host, args, work, beforeStart),
    receive: (vm, work) => receiveVm(host, vm, work),
    stopHelpers: (vmid) => stopHelpers(host, vmid),
  };
}

async function receiveVm(
  host: StartVmPorts,
  { vmid, values, machine, cpu }: ReceivedVm,
  work: StartWork,
): Promise<void> {
  await host.qemu.mayStart();
  const from = { vmstate: "", machine, ...given({ cpu }) };
  await withHelpers(host, vmid, values, work, (files) =>
    startQemu(host, { vmid, paused: true, from }, values, files, work, async () => undefined),
  );
}

async function startVm(
  host: StartVmPorts,
  args: StartArgs,
  work: StartWork,
  beforeStart: (suspended?: string) => Promise<void>,
): Promise<void> {
  const { vmid } = args;
  const before = host.configs.get(vmid);
  if (isTemplate(before)) throw conflict("you can't start a vm if it's a template");
  const running = runningVm(host, vmid);
  // A backup has started it, paused, to read its disks: it goes on in the QEMU that is there.
  if (running !== undefined && hasLock(before, "backup")) return continueGuest(running, work.signal);
  if (args.skiplock !== true && !hasLock(before, "suspended")) checkLock(before);
  if (running !== undefined) throw conflict(`VM ${vmid} already running`);
  await host.qemu.mayStart();
  const suspended = args.from === undefined ? suspendedState(before) : undefined;
  // The devices of saved RAM are those of its time: changes wait for the start after this one.
  const applied = suspended === undefined ? await applyPendingChanges(host, vmid, work.log) : before;
  const config = await keepAddresses(host, vmid, applied, work.log);
  await applyCloudinit(host, vmid, work.log);
  await runHook(host, vmid, config.values, "pre-start", work);
  await withHelpers(host, vmid, config.values, work, async (files) => {
    const begin = (): Promise<void> => beforeStart(suspended?.vmstate);
    if (suspended === undefined) await startQemu(host, args, config.values, files, work, begin);
    else await resumeFromDisk(host, { ...args, from: suspended }, config.values, files, work, begin);
  });
  await runHook(host, vmid, config.values, "post-start", work);
}

/** What QEMU connects to runs before it, and not without it. */
async function withHelpers(
  host: StartVmPorts,
  vmid: number,
  values: VmValues,
  work: StartWork,
  start: (files: readonly GuestFile[]) => Promise<void>,
): Promise<void> {
  const tpm = await startTpm(host, vmid, values, work.signal);
  try {
    const shares = await startFileServers(host, vmid, values, work.signal);
    const networks = await startUserNetworks(host, vmid, values, work.signal);
    await start([...shares, ...networks, ...(tpm === undefined ? [] : [tpm.socket])]);
  } catch (err) {
    // Else nothing is told but that QEMU misses its socket.
    const why = tpm === undefined ? undefined : await whyFailed(tpm.process, err);
    await stopHelpers(host, vmid);
    throw why ?? err;
  }
}

async function stopHelpers(host: StartVmPorts, vmid: number): Promise<void> {
  await stopTpm(host, vmid);
  await stopFileServers(host, vmid);
  await stopUserNetworks(host, vmid);
}

/** The guest stands still until nothing in the configuration names the saved RAM any more: it is never loaded twice. */
async function resumeFromDisk(
  host: StartVmPorts,
  args: StartArgs & { readonly from: StartFromState },
  values: VmValues,
  files: readonly GuestFile[],
  work: StartWork,
  beforeStart: () => Promise<void>,
): Promise<void> {
  const { vmid } = args;
  const { vmstate } = args.from;
  work.log("Resuming suspended VM");
  await volumeOf(host, vmstate).plugin.activate();
  work.log(`activating and using '${vmstate}' as vmstate`);
  await startQemu(host, { ...args, paused: true }, values, files, work, beforeStart);
  const process = requireRunningVm(host, vmid);
  try {
    await loadRam(host, process, await attachedFile(host, vmstate, SAVED_RAM), work.signal);
    await host.configs.change(vmid, endSuspend);
  } catch (err) {
    await process.kill();
    throw err;
  }
  await continueFromRam(process, work.signal);
  work.log("Resumed VM, removing state");
  await freeVolume(host, vmstate, work.log);
}

async function startQemu(
  host: StartVmPorts,
  args: StartArgs,
  values: VmValues,
  files: readonly GuestFile[],
  work: StartWork,
  beforeStart: () => Promise<void>,
): Promise<void> {
  const { vmid } = args;
  requireMappedHardware(host, values);
  const machineVersion = pinnedVersion(values);
  const machine = host.configs.microvm(vmid);
  const microvm = machine === undefined ? undefined : await microvmFiles(host, machine);
  const options = {
    ...given({ microvm: microvm?.boot }),
    paused: args.paused ?? false,
    ...given({ machineVersion, machine: args.machine, cpu: args.cpu }),
    ...(args.from === undefined ? {} : fromState(args.from)),
  };
  const drives = args.instead?.drives ?? {};
  const reachable = [...files, ...(args.instead?.files ?? []), ...(microvm?.files ?? [])];
  const shown = { ...values, ...drives };
  const below = args.instead?.below;
  const { start, command } = await planStart(host, vmid, shown, options, reachable, below);
  for (const line of [...command.warnings, ...droppedLimits(host, values)]) work.warn(line);
  for (const line of [...command.notes, ...userNetworkRemarks(host, vmid, values)]) work.log(line);
  await beforeStart();
  await filterCards(host, vmid, values, work);
  const taken = await takeDevices(host, vmid, values, command.pciDevices);
  try {
    const process = await withPrefix(
      "start failed: ",
      () =>
        host.memory.withHugepages(
          start.id,
          hugepageNeeds(values, host.qemu.facts()),
          values["keephugepages"] === "1",
          (folders) => host.processes.startQemu(withDevices(start, taken, folders), { signal: work.signal }),
        ),
      `start of ${start.label} failed: `,
    );
    await dropInconsistentBitmaps(host.chains, vmid, process).catch((err: unknown) =>
      work.warn(`dirty bitmaps of VM ${vmid}: ${messageOf(err)}`),
    );
    await finishNetwork(host, vmid, values, process, work);
    // Without shares nobody but its owner sizes a guest: it begins with what is left to it.
    if (args.from === undefined && values["shares"] === "0" && Number(values["balloon"] ?? 0) > 0)
      await process.qmp.execute(
        "balloon",
        { value: Number(values["balloon"]) * MIB },
        { signal: work.signal },
      );
  } catch (err) {
    if (runningVm(host, vmid) === undefined) {
      await taken.giveBack();
      await unfilter(host, vmid);
    }
    throw err;
  } finally {
    taken.release();
  }
}

/** Limits of the CPU are the cgroup's, which only a guest of a confined agent has. */
function droppedLimits(host: StartVmPorts, values: VmValues): string[] {
  const { level, detail } = host.processes.confinement;
  if (level === "full") return [];
  return ["cpulimit", "cpuunits"]
    .filter((key) => values[key] !== undefined && values[key] !== "0")
    .map((key) => `${key} ${values[key] ?? ""} is not kept: ${detail}`);
}

function withDevices(
  start: QemuStart,
  { files, pci, writeMemory }: TakenDevices,
  folders: readonly string[],
): QemuStart {
  const pages = folders.map((path): GuestFile => ({ path, access: "rw" }));
  return {
    ...start,
    files: [...start.files, ...files, ...pages],
    ...(pci.length === 0 ? {} : { note: { ...(start.note as object), pci } }),
    ...(writeMemory ? { memlock: "unlimited" } : {}),
  };
}

/** Before the guest can send anything. */
async function filterCards(
  host: StartVmPorts,
  vmid: number,
  values: VmValues,
  work: StartWork,
): Promise<void> {
  for (const { key, net } of listNets(values)) {
    if (isUserNetwork(host, net)) continue;
    const filter = (): Promise<string | undefined> =>
      host.network.filter(vmid, host.network.newTap(vmid, key), net);
    const remark = await withPrefix(`${key}: `, filter).catch(async (err: unknown) => {
      await unfilter(host, vmid);
      throw err;
    });
    if (remark !== undefined) work.log(`${key}: ${remark}`);
  }
}

/** Of cards that have not come: a filter that stays names no card, and goes with the next change. */
async function unfilter(host: StartVmPorts, vmid: number): Promise<void> {
  await host.network
    .unfilter(vmid)
    .catch((err: unknown) => ignore(err, "why it did not start is what counts"));
}

/** What a NIC has besides its tap: VLANs, rate, a link that is down. */
async function finishNetwork(
  host: StartVmPorts,
  vmid: number,
  values: VmValues,
  process: QemuProcess,
  work: StartWork,
): Promise<void> {
  for (const { key, net } of listNets(values)) {
    if (net.link_down === true)
      await process.qmp.execute("set_link", { name: key, up: false }, { signal: work.signal });
    if (
      isUserNetwork(host, net) ||
      (net.rate === undefined && net.tag === undefined && net.trunks === undefined)
    )
      continue;
    // A log line, no warning: clients take the exit status `WARNINGS` for a failed start.
    for (const line of await host.network.configure(host.network.tapOf(vmid, key), net))
      work.log(`${key}: ${line}`);
  }
}

function fromState({ machine, cpu, netsHostMtu }: StartFromState): CommandOptions {
  const mtus = [...(netsHostMtu ?? "").matchAll(/\b(net\d+)=(\d+)/g)];
  return {
    incoming: true,
    machine,
    ...given({ cpu }),
    ...(mtus.length === 0
      ? {}
      : { netHostMtu: Object.fromEntries(mtus.map(([, key = "", mtu]) => [key, Number(mtu)])) }),
  };
}

/** A VM keeps the machine of the QEMU that made it: an upgrade of QEMU changes no guest's hardware. */
export function pinnedVersion(values: VmValues): string | undefined {
  const text = values["meta"];
  if (text === undefined) return undefined;
  const made = readVmProperty("meta", text, "meta")["creation-qemu"];
  return typeof made === "string" ? /^\d+\.\d+/.exec(made)?.[0] : undefined;
}
