// What everyone who has guests' processes may rely on: run on the fake and on real supervisors.
import { afterEach, beforeEach, expect, it } from "vitest";
import type { GuestProcess, GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";

export interface ProcessesUnderTest {
  readonly processes: QemuProcesses;
  /** Another agent on the same host, after the first has gone. */
  reopen(): QemuProcesses;
  /** A program that runs until it is ended. */
  readonly program: (id: string) => GuestStart;
  readonly qemu: (id: string) => QemuStart;
  /** A QEMU that says this, and ends. */
  readonly failing: (id: string, words: string) => QemuStart;
  /** The guest inside switches itself off. */
  switchOff(guest: QemuProcess): Promise<unknown>;
  /** It ends without anybody having asked it to, or looking. */
  endAlone(guest: GuestProcess): Promise<unknown>;
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

  it("tells who has ended meanwhile, again and again until it is forgotten", async () => {
    const { processes, program } = under;
    const helper = await processes.start({ ...program("100-tpm"), note: 7 });
    processes.close();
    await under.reopen().adopt();
    await under.endAlone(helper);
    const idsAfter = async () => {
      const { running, ended } = await under.reopen().adopt();
      expect(running).toEqual([]);
      return ended.map(({ id, note }) => [id, note]);
    };
    await expect.poll(idsAfter).toEqual([["100-tpm", 7]]);
    expect(await idsAfter()).toEqual([["100-tpm", 7]]);
    await under.reopen().forget("100-tpm");
    expect(await idsAfter()).toEqual([]);
  });

  it("leaves nothing of a QEMU that does not start, but its words", async () => {
    const { processes, failing, qemu } = under;
    const ends: string[] = [];
    processes.onExit(({ id }) => ends.push(id));
    await expect(processes.startQemu(failing("100", "cannot open the disk"))).rejects.toMatchObject({
      code: "guest.start_failed",
      message: expect.stringContaining("cannot open the disk") as string,
    });
    expect(processes.get("100")).toBeUndefined();
    expect(processes.list()).toEqual([]);
    const guest = await processes.startQemu(qemu("100"));
    expect(ends).toEqual([]);
    await guest.kill();
  });

  it("ends its monitors with it", async () => {
    const { processes, qemu } = under;
    const guest = await processes.startQemu(qemu("100"));
    const waiting = guest.qmp.events.waitFor("an event", () => undefined).result;
    const lost = expect(waiting).rejects.toMatchObject({ code: "qmp.disconnected" });
    await guest.kill();
    await lost;
    await expect(guest.qmp.execute("query-status")).rejects.toMatchObject({ code: "qmp.disconnected" });
  });

  it("keeps a guest that switched itself off for those who hold it, and ends it after the last", async () => {
    const { processes, qemu } = under;
    const guest = await processes.startQemu(qemu("100"));
    const [letGo, letGoToo] = [guest.holdOpen(), guest.holdOpen()];
    void under.switchOff(guest);
    await expect
      .poll(async () => (await guest.qmp.execute("query-status")).status, { timeout: 10_000 })
      .toBe("shutdown");
    letGo();
    letGo();
    expect(await guest.qmp.execute("query-status")).toMatchObject({ status: "shutdown" });
    expect(guest.hasExited).toBe(false);
    letGoToo();
    expect(await guest.exited).toMatchObject({ cause: "shutdown" });
  });
}
