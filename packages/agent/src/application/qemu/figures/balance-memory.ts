// Balloons of running guests follow the memory of the host, every few seconds.
import { given } from "@gpve/contracts/given.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { balloonTargets, type BalloonedGuest } from "@gpve/domain/vm/running/auto-balloon.ts";
import { ignore } from "@gpve/kit/background.ts";

export interface MemoryBalanceDeps {
  readonly process: (vmid: number) => QemuProcess | undefined;
  readonly freeMemory: (vmid: number) => number | undefined;
  readonly hostMemory: () => Promise<{ readonly total: number; readonly used: number }>;
}

const TIMEOUT_MS = 2_000;

/** Only guests with a minimum and a weight take part: the others were promised what they have. */
export async function balanceMemory(
  { process, freeMemory, hostMemory }: MemoryBalanceDeps,
  guests: readonly GuestRecord[],
): Promise<void> {
  const ballooned = (await Promise.all(guests.map(asked))).filter((guest) => guest !== undefined);
  if (ballooned.length === 0) return;
  const targets = [...balloonTargets(ballooned, await hostMemory())];
  await Promise.all(targets.map(([vmid, value]) => set(vmid, value)));

  async function set(vmid: number, value: number): Promise<void> {
    try {
      await process(vmid)?.qmp.execute("balloon", { value }, { timeoutMs: TIMEOUT_MS });
    } catch (err) {
      ignore(err, "it may be ending; the next round tries again");
    }
  }

  async function asked({ vmid, summary }: GuestRecord): Promise<BalloonedGuest | undefined> {
    const { balloon, maxmem, lock } = summary;
    // One that is about to run elsewhere must not change underway.
    if (balloon === undefined || balloon.shares === 0 || lock === "migrate") return undefined;
    const free = freeMemory(vmid);
    try {
      const answer = await process(vmid)?.qmp.execute("query-balloon", undefined, { timeoutMs: TIMEOUT_MS });
      if (answer === undefined) return undefined;
      return {
        vmid,
        balloon: answer.actual,
        min: balloon.min,
        max: maxmem,
        shares: balloon.shares,
        ...given({ free }),
      };
    } catch (err) {
      ignore(err, "it is ending, or has no balloon yet");
      return undefined;
    }
  }
}
