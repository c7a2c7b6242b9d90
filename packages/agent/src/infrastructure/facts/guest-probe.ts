// Finds out whether an accelerator really runs guests, by running one.
//
// The guest is 64 KiB of firmware. From the reset vector it goes through protected mode into 64-bit mode with
// paging, counts fifty million steps and writes to QEMU's debug-exit port, which ends QEMU with code 33. The
// counting matters: some hosts offer a /dev/kvm that only emulates what a guest's kernel does, instruction by
// instruction. There the guest starts, and a kernel would never get anywhere; real KVM counts in 20 ms, QEMU's own
// translator (TCG) in a quarter of a second.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export type Accelerator = "kvm" | "tcg";

export interface ProbeResult {
  readonly works: boolean;
  /** What happened, with QEMU's last words when it failed. */
  readonly detail: string;
}

const GUEST_DONE = 33;
const TIMEOUT_MS = { kvm: 3_000, tcg: 10_000 } as const satisfies Record<Accelerator, number>;

/**
 * Machine code of the guest, placed at 0xF000 of the firmware (0xFFFFF000 in memory). As assembly:
 *   16 bit: cli; lgdt; set CR0.PE; far jump to 32 bit
 *   32 bit: page tables at 0x1000-0x4FFF that map the first and the last 2 MiB below 4 GiB; CR4.PAE; CR3;
 *           EFER.LME; CR0.PG; far jump to 64 bit
 *   64 bit: mov ecx, 50000000; 1: dec rcx; jnz 1b; mov dx, 0xf4; mov al, 0x10; out dx, al; 2: hlt; jmp 2b
 *   then the descriptor table (null, 32-bit code, data, 64-bit code) and its pointer
 */
const GUEST_CODE =
  "fa2e660f0116c0f00f20c00c010f22c066ea18f0ffff0800b8100000008ed88ec08ed0c7050010000003200000c7050020000003300000" +
  "c7051820000003400000c7050030000083000000c705f84f00008300e0ff0f20e083c8200f22e0b8001000000f22d8b9800000c00f320d" +
  "000100000f300f20c00d000000800f22c0ea86f0ffff1800b980f0fa0248ffc975fb66baf400b010eef4ebfd660f1f4400000000000000" +
  "000000ffff0000009acf00ffff00000092cf00ffff0000009aaf001f00a0f0ffff";

export function probeFirmware(): Uint8Array {
  const rom = Buffer.alloc(65_536, 0xf4);
  Buffer.from(GUEST_CODE, "hex").copy(rom, 0xf000);
  // The reset vector: a near jump from 0xFFF0 back to 0xF000.
  Buffer.from([0xe9, 0x0d, 0xf0]).copy(rom, 0xfff0);
  return rom;
}

export function probeArguments(accelerator: Accelerator, firmware: string): readonly string[] {
  const machine = ["-machine", `pc,accel=${accelerator}`, "-m", "16", "-bios", firmware];
  const plain = ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"];
  return [...plain, ...machine, "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"];
}

/** `folder` is for a temporary file. Takes 0.1 s where it works, a few seconds where it does not. */
export async function probeAccelerator(
  accelerator: Accelerator,
  deps: { exec: Exec; qemu: string; folder: string },
): Promise<ProbeResult> {
  const own = await mkdtemp(join(deps.folder, "probe-"));
  try {
    const firmware = join(own, "guest.rom");
    await writeFile(firmware, probeFirmware());
    const timeoutMs = TIMEOUT_MS[accelerator];
    try {
      // Under `timeout`, so that the guest ends even when this process is killed before it could end it.
      const limit = String(timeoutMs / 1_000 + GUARD_SECONDS);
      const guarded = ["--signal=KILL", limit, deps.qemu, ...probeArguments(accelerator, firmware)];
      await deps.exec("timeout", guarded, { timeoutMs, okCodes: [GUEST_DONE] });
      return { works: true, detail: `a guest ran under ${accelerator}` };
    } catch (err) {
      return { works: false, detail: explain(accelerator, messageOf(err), timeoutMs) };
    }
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** After our own limit: the guard is for when nobody is left to keep it. */
const GUARD_SECONDS = 2;

function explain(accelerator: Accelerator, message: string, timeoutMs: number): string {
  if (/did not finish within/.test(message)) {
    return `a guest started under ${accelerator} but 50 million instructions took longer than ${timeoutMs / 1_000} s`;
  }
  return `no guest runs under ${accelerator}: ${message}`;
}
