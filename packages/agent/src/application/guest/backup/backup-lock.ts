// The lock of a guest whose backup runs. From before it is taken, a restart knows what to put right.
import { without, type GuestConfig } from "@gpve/domain/guest/guest-config.ts";
import { hasLock, setLock } from "@gpve/domain/guest/guest-lock.ts";
import type { HeldGuest } from "./backup-request.ts";
import type { BackupStep } from "./backup-run.ts";

export interface LockPorts {
  readonly configs: {
    has(vmid: number): boolean;
    get(vmid: number): GuestConfig;
    change(vmid: number, change: (config: GuestConfig) => GuestConfig): Promise<GuestConfig>;
  };
}

/** `look` is asked only when nobody else has the guest: somebody may just be starting or stopping it. */
export function lockForBackup<Held extends HeldGuest>(
  { configs }: LockPorts,
  step: BackupStep<Held>,
  look: () => Promise<Held>,
): Promise<{ readonly config: GuestConfig; readonly held: Held }> {
  const { vmid, state, checkpoint } = step;
  return step.whileFree(vmid, async () => {
    // Refused before it is noted: a lock that somebody else has is not ours to take away.
    setLock(configs.get(vmid), "backup");
    const held = await look();
    state.held = held;
    await checkpoint();
    const config = await configs.change(vmid, (before) => setLock(before, "backup"));
    return { config, held };
  });
}

export async function unlockAfterBackup({ configs }: LockPorts, vmid: number): Promise<void> {
  if (!configs.has(vmid)) return;
  await configs.change(vmid, (config) =>
    hasLock(config, "backup") ? { ...config, values: without(config.values, "lock") } : config,
  );
}
