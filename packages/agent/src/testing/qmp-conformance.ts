// What everyone who speaks to a VM's QEMU may rely on: run on the fake and on the real client.
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Qmp } from "@gpve/domain/vm/qmp/qmp.ts";

export interface QmpUnderTest {
  readonly qmp: Qmp;
  /** What QEMU says to a command: a result, a refusal in words, or nothing. */
  answer(command: string, answer: { result: unknown } | { refusal: string } | "nothing"): void;
  event(name: string, data: Readonly<Record<string, unknown>>): void;
  /** QEMU dies. */
  end(): Promise<void>;
  close(): Promise<void>;
}

export function qmpConformance(open: () => Promise<QmpUnderTest>): void {
  let under: QmpUnderTest;
  let qmp: Qmp;
  beforeEach(async () => {
    under = await open();
    ({ qmp } = under);
  });
  afterEach(async () => {
    await under.close();
  });
  const refusedWith = (code: string) => ({ code });

  it("gives QEMU's results, and its refusals with command, class and words", async () => {
    under.answer("query-status", { result: { status: "running", running: true } });
    under.answer("device_del", { refusal: "Device 'x' not found" });
    expect(await qmp.execute("query-status")).toEqual({ status: "running", running: true });
    await expect(qmp.raw("device_del", { id: "x" })).rejects.toMatchObject({
      code: "qmp.failed",
      message: `${qmp.label} qmp command 'device_del' failed - Device 'x' not found`,
      data: { command: "device_del", class: "GenericError", desc: "Device 'x' not found" },
    });
    await expect(qmp.raw("no-such-command")).rejects.toMatchObject({
      code: "qmp.failed",
      data: { command: "no-such-command", class: "CommandNotFound" },
    });
  });

  it("waits for an answer as long as it is told, or until nobody wants it", async () => {
    under.answer("stop", "nothing");
    await expect(qmp.raw("stop", {}, { timeoutMs: 20 })).rejects.toMatchObject(
      refusedWith("request.timeout"),
    );
    const abort = new AbortController();
    const waiting = qmp.raw("stop", {}, { signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toMatchObject(refusedWith("operation.cancelled"));
    await expect(qmp.raw("stop", {}, { signal: abort.signal })).rejects.toMatchObject(
      refusedWith("operation.cancelled"),
    );
  });

  it("tells events to those who listen, as long as they do", async () => {
    const [heard, deaf]: [string[], string[]] = [[], []];
    qmp.events.listen({ onEvent: ({ name }) => heard.push(name) });
    qmp.events.listen({ onEvent: ({ name }) => deaf.push(name) })();
    const abort = new AbortController();
    const stream = qmp.events.stream(abort.signal);
    const first = stream.next();
    under.event("STOP", { a: 1 });
    expect(await first).toMatchObject({ done: false, value: { name: "STOP", data: { a: 1 } } });
    const second = stream.next();
    abort.abort();
    expect(await second).toEqual({ done: true, value: undefined });
    expect([heard, deaf]).toEqual([["STOP"], []]);
  });

  it("waits for the one event that matches, and fails with what the match throws", async () => {
    const job = qmp.events.waitFor("the job", ({ data }) =>
      data["id"] === "j" ? data["status"] : undefined,
    );
    const failed = qmp.events.waitFor("the end", ({ data }) => {
      if (typeof data["error"] === "string") throw new Error(data["error"]);
      return undefined;
    });
    const failure = expect(failed.result).rejects.toThrow("no space");
    under.event("JOB", { id: "other", status: "ready" });
    under.event("JOB", { id: "j", status: "ready" });
    expect(await job.result).toBe("ready");
    under.event("JOB", { id: "j", error: "no space" });
    await failure;
    const never = (options: object) => qmp.events.waitFor("nothing", () => undefined, options);
    await expect(never({ timeoutMs: 10 }).result).rejects.toMatchObject(refusedWith("request.timeout"));
    await expect(never({ signal: AbortSignal.abort() }).result).rejects.toMatchObject(
      refusedWith("operation.cancelled"),
    );
    const left = never({});
    left.cancel();
    await expect(left.result).rejects.toMatchObject(refusedWith("operation.cancelled"));
  });

  it("is over when QEMU is: commands, waits, streams and listeners learn of it", async () => {
    under.answer("stop", "nothing");
    let told = 0;
    qmp.events.listen({ onEvent: () => undefined, onEnd: () => (told += 1) });
    const lost = refusedWith("qmp.disconnected");
    const ended = [
      expect(qmp.raw("stop")).rejects.toMatchObject(lost),
      expect(qmp.events.waitFor("more", () => undefined).result).rejects.toMatchObject(lost),
      expect(qmp.events.stream().next()).resolves.toEqual({ done: true, value: undefined }),
    ];
    await under.end();
    await Promise.all(ended);
    await expect.poll(() => told).toBe(1);
    await expect(qmp.execute("query-status")).rejects.toMatchObject(lost);
    qmp.events.listen({ onEvent: () => undefined, onEnd: () => (told += 1) });
    expect(told).toBe(2);
  });
}
