// A QEMU that waits for a guest, and the moment in which the guest goes on in it.
import type { RamTransfer, WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { takenTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { vmStarter, type StartVmPorts } from "../start/start-vm.ts";
import { runningVm } from "../running-vm.ts";
import { setTransfer, transferAbilities } from "./qemu-transfer.ts";
import { stopServing } from "./received-volumes.ts";

const GO_ON_MS = 5;
const GO_ON_TRIES = 1_000;

/** What it takes of what is wanted. One line that it decrypts itself is worth more than several that agents carry. */
export async function awaitIncoming(
  { qmp, ioFolder }: QemuProcess,
  wanted: WantedTransfer | undefined,
  signal: AbortSignal,
  isEncrypted = false,
): Promise<RamTransfer | undefined> {
  const taken =
    wanted === undefined || isEncrypted ? undefined : takenTransfer(wanted, await transferAbilities(qmp));
  // Both in one go: QEMU takes them in turn.
  await Promise.all([
    qmp.execute("migrate-set-capabilities", {
      capabilities: [
        // Disks are opened for writing when the guest goes on, and not before.
        { capability: "late-block-activate", state: true },
        { capability: "events", state: true },
      ],
    }),
    setTransfer(qmp, taken),
  ]);
  await qmp.execute("migrate-incoming", { uri: `unix:${ioFolder}/ram` }, { signal });
  return taken;
}

export async function goOnHere(
  host: { readonly clock: Clock },
  process: QemuProcess,
  guest: {
    /** Its disks came over NBD. */
    readonly served: boolean;
    /** It stood still before. */
    readonly isPaused: boolean;
  },
): Promise<void> {
  // What came over NBD is whole: its owner stands still. Nobody may write to it any more but the guest.
  if (guest.served) await stopServing(process);
  if (guest.isPaused) return;
  await goOn(host, process);
  await announce(process);
}

/** Switches learn where its cards are, also while it does not run yet: what comes for it waits in its queue. */
export async function announce({ qmp }: QemuProcess): Promise<void> {
  await qmp
    .raw("announce-self", { initial: 50, max: 550, rounds: 5, step: 100 })
    .catch((err: unknown) => ignore(err, "the guest is heard of when it first sends something"));
}

/** Also where the last of it is being read, and where it stood still when it was sent. */
async function goOn(host: { readonly clock: Clock }, { qmp }: QemuProcess): Promise<void> {
  for (let tries = 0; tries < GO_ON_TRIES; tries++) {
    await qmp.execute("cont");
    const { status } = await qmp.execute("query-status");
    if (status !== "inmigrate" && status !== "paused" && status !== "prelaunch") return;
    await host.clock.sleep(GO_ON_MS);
  }
}

export async function endIncoming(host: StartVmPorts, vmid: number): Promise<void> {
  await runningVm(host, vmid)?.kill();
  await vmStarter(host).stopHelpers(vmid);
}
