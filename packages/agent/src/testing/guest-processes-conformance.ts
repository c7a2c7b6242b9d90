// What everyone who has guests' processes may rely on: run on the fake and on real supervisors.
import { afterEach, beforeEach, expect, it } from "vitest";
import type { GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";

export interface ProcessesUnderTest {
  readonly processes: QemuProcesses;
  /** Another agent on the same host, after the first has gone. */
  reopen(): QemuProcesses;
  /** A program that runs until it is ended. */
  readonly program: (id: string) => GuestStart;
  readonly qemu: (id: string) => QemuStart;
  /** The guest inside switches itself off. */
  switchOff(guest: QemuProcess): Promise<unknown>;
  clean(): Promise<void>;
}

export function guestProcessesConformance(open: () => Promise<ProcessesUnderTest>): void {
  let under: ProcessesUnderTest;
  beforeEach(async () => {
    under = await open();
  });
  afterEach(async () => {
    await under.clean();
  });

  it("starts a program once, has it by its id, and stops it", async () => {
    const { processes, program } = under;
    const helper = await processes.start(program("100-tpm"));
    expect(processes.get("100-tpm")).toBe(helper);
    expect(processes.list()).toEqual([helper]);
    expect(helper).toMatchObject({ id: "100-tpm", hasExited: false });
    await expect(processes.start(program("100-tpm"))).rejects.toThrow("already running");
    expect(await helper.stop()).toMatchObject({ cause: "stopped" });
    expect(helper.hasExited).toBe(true);
    await expect.poll(() => processes.get("100-tpm")).toBeUndefined();
    expect(processes.list()).toEqual([]);
    const again = await processes.start(program("100-tpm"));
    expect(await again.kill()).toMatchObject({ cause: "stopped" });
  });

  it("tells each end once, with who it was, to those who still listen", async () => {
    const { processes, program } = under;
    const heard: unknown[] = [];
    const deaf: unknown[] = [];
    processes.onExit((ended) => heard.push(ended));
    processes.onExit((ended) => deaf.push(ended))();
    const helper = await processes.start({ ...program("100-fs0"), note: { share: 0 } });
    await helper.kill();
    await expect
      .poll(() => heard)
      .toMatchObject([
        { id: "100-fs0", label: helper.label, note: { share: 0 }, exit: { cause: "stopped" } },
      ]);
    expect(deaf).toEqual([]);
  });

  it("forgets what has ended, and nothing else", async () => {
    const { processes, program } = under;
    const helper = await processes.start(program("100-net0"));
    await expect(processes.forget("100-net0")).rejects.toThrow("still running");
    await helper.stop();
    await expect.poll(() => processes.get("100-net0")).toBeUndefined();
    await processes.forget("100-net0");
    processes.close();
    expect((await under.reopen().adopt()).ended).toEqual([]);
  });

  it("has a place for each guest before it starts and while it runs", async () => {
    const { processes, program } = under;
    const place = processes.placeOf("100-tpm");
    const helper = await processes.start(program("100-tpm"));
    expect(helper.ioFolder).toBe(place.ioFolder);
    expect(processes.placeOf("101-tpm").ioFolder).not.toBe(place.ioFolder);
    await helper.kill();
  });

  it("lets guests run on without it, and finds them again with what was noted", async () => {
    const { processes, program, qemu } = under;
    await processes.start({ ...program("100-tpm"), note: "a helper" });
    await processes.startQemu({ ...qemu("100"), note: { machine: "pc" } });
    processes.close();
    const after = under.reopen();
    const { running, ended, unreachable } = await after.adopt();
    expect(Object.fromEntries(running.map(({ id, note }) => [id, note]))).toEqual({
      "100": { machine: "pc" },
      "100-tpm": "a helper",
    });
    expect([...ended, ...unreachable]).toEqual([]);
    expect((await after.adopt()).running).toEqual([]);
    expect(await after.qemu("100")?.qmp.execute("query-status")).toMatchObject({ running: true });
    await Promise.all(after.list().map((guest) => guest.kill()));
  });

  it("knows which of its processes is QEMU, and that its guest switched itself off", async () => {
    const { processes, program, qemu } = under;
    const helper = await processes.start(program("100-tpm"));
    const guest = await processes.startQemu(qemu("100"));
    expect(processes.qemu("100")).toBe(guest);
    expect(processes.qemu("100-tpm")).toBeUndefined();
    expect(processes.qemu("101")).toBeUndefined();
    await under.switchOff(guest);
    expect(await guest.exited).toMatchObject({ cause: "shutdown" });
    expect(helper.hasExited).toBe(false);
    await helper.kill();
  });
}
