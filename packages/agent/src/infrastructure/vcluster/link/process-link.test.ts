import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, onTestFinished, test } from "vitest";
import { onLines, sendLine } from "./json-lines.ts";
import { ProcessLink, type ProcessLinkDeps } from "./process-link.ts";

/** A process that answers what it is asked, with the word it was asked with, unless it is told to be silent. */
async function world(more: Partial<ProcessLinkDeps> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "gpve-link-"));
  const path = join(folder, "agent.sock");
  const open = new Set<Socket>();
  const process = { isRunning: false, isSilent: false, starts: 0, stops: 0, links: 0 };
  const server = createServer((socket) => {
    process.links++;
    open.add(socket);
    socket.on("error", () => socket.destroy());
    onLines(socket, (message) => {
      const { seq, word } = message as { seq: number; word: string };
      if (!process.isSilent) sendLine(socket, { ack: seq, word });
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const hangUp = (): void => open.forEach((socket) => socket.destroy());
  onTestFinished(async () => {
    hangUp();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  });
  const handle = {
    hasExited: false,
    socketPath: () => path,
    stop: async () => {
      process.stops++;
      process.isRunning = false;
    },
  } as never;
  const clock = new FakeClock();
  const heard: unknown[] = [];
  let closes = 0;
  const link = new ProcessLink<{ readonly ack: number; readonly word: string }>({
    id: "one",
    label: "the one",
    processes: { get: () => (process.isRunning ? handle : undefined), forget: async () => undefined },
    clock,
    start: async () => {
      process.starts++;
      process.isRunning = true;
      return handle;
    },
    said: (message) => heard.push(message),
    closed: () => void closes++,
    ...more,
  });
  const ask = async (word: string) => (await link.ask((seq) => ({ seq, word }), 1_000))?.word;
  const speak = (message: object): void => open.forEach((socket) => sendLine(socket, message));
  return { link, ask, process, clock, heard, closes: () => closes, hangUp, speak, open };
}

test("all who ask have one process started and one link, and each his own answer", async () => {
  const { link, ask, process, heard, speak } = await world();
  link.tell({ seq: 0, word: "nobody hears it" });
  expect([link.runs, link.isOpen, link.isBusy]).toEqual([false, false, false]);
  const asked = ["a", "b", "c"].map(ask);
  expect(link.isBusy).toBe(true);
  expect(await Promise.all(asked)).toEqual(["a", "b", "c"]);
  expect(process).toMatchObject({ starts: 1, links: 1 });
  expect([link.runs, link.isOpen, link.isBusy]).toEqual([true, true, false]);
  speak({ news: 1 });
  await expect.poll(() => heard).toEqual([{ news: 1 }]);
});

test("who gets no answer in time, or is hung up on, is told so; the next link is another", async () => {
  const { link, ask, process, clock, closes, hangUp, open } = await world();
  await link.linked();
  process.isSilent = true;
  const late = ask("late");
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(1_000);
  expect(await late).toBeUndefined();
  const cut = ask("cut");
  await expect.poll(() => open.size).toBe(1);
  hangUp();
  expect(await cut).toBeUndefined();
  expect([closes(), link.isOpen]).toEqual([1, false]);
  process.isSilent = false;
  expect(await ask("again")).toBe("again");
  expect(process).toMatchObject({ starts: 1, links: 2 });
  link.leave();
  await expect.poll(closes).toBe(2);
});

test("one that speaks first is linked to when it has spoken", async () => {
  const { link, heard, clock, speak, open } = await world({ greets: true });
  let said = "";
  link.linked().catch((err: unknown) => {
    said = String(err);
  });
  await expect.poll(() => open.size).toBe(1);
  expect(link.isOpen).toBe(false);
  await expect
    .poll(async () => {
      await clock.advance(30_000);
      return said;
    })
    .toContain("the one does not answer");
  const linked = link.linked();
  await expect.poll(() => open.size).toBe(2);
  speak({ hello: 1 });
  await linked;
  expect([heard, link.isOpen]).toEqual([[{ hello: 1 }], true]);
});

test("one that nobody wants ends, and who wants it meanwhile gets another", async () => {
  const { link, ask, process } = await world();
  await link.end();
  expect(process.stops).toBe(0);
  await ask("a");
  const ending = link.end();
  await expect.poll(() => link.isOpen).toBe(false);
  expect(await ask("b")).toBe("b");
  await ending;
  expect(process).toMatchObject({ starts: 2, stops: 1, links: 2 });
});
