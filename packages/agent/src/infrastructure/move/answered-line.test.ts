import { duplexPair } from "node:stream";
import { expect, test, vi } from "vitest";
import { AnsweredLine, answerLine } from "./answered-line.ts";
import { readLine, writeLine } from "./move-wire.ts";

function pair() {
  const [near, far] = duplexPair();
  const answerOf = (line: unknown): unknown => {
    const { ok, error } = line as { ok?: unknown; error?: string };
    if (error !== undefined) throw new Error(error);
    return ok;
  };
  return { near, far, line: new AnsweredLine(near, answerOf, "the other node") };
}

test("what is asked is answered; the other end is left in order", async () => {
  const { far, line } = pair();
  const leave = vi.fn(async () => undefined);
  const served = answerLine(far, String, async () => writeLine(far, { ok: await readLine(far) }), leave);
  expect(await line.ask({ one: 1 })).toEqual({ one: 1 });
  await served;
  expect(leave).toHaveBeenCalledOnce();
  expect(far.writableEnded).toBe(true);
});

test("whoever cannot go on says why to one who still sends, and leaves too", async () => {
  const { near, far, line } = pair();
  const leave = vi.fn(async () => undefined);
  const refuse = async (): Promise<void> => {
    throw new Error("no room");
  };
  await answerLine(far, (err) => (err as Error).message, refuse, leave);
  await vi.waitFor(() => expect(near.readableLength).toBeGreaterThan(0), 30_000);
  await expect(line.say({ more: true })).rejects.toThrow("no room");
  expect(leave).toHaveBeenCalledOnce();
});

test("an answer that nobody asked for is no answer", async () => {
  const { near, far, line } = pair();
  writeLine(far, { ok: true });
  await vi.waitFor(() => expect(near.readableLength).toBeGreaterThan(0), 30_000);
  await expect(line.write(Buffer.from("x"))).rejects.toThrow("the other node answered before it was asked");
});
