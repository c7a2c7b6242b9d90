import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { roomIn } from "./stream-room.ts";

const slow = (): { stream: Writable; next: () => void } => {
  let next: () => void = () => undefined;
  const stream = new Writable({
    highWaterMark: 1,
    write: (_chunk, _encoding, done) => (next = () => done()),
  });
  return { stream, next: () => next() };
};

test("waits until a stream takes more, and leaves no listener on it", async () => {
  const { stream, next } = slow();
  for (let round = 0; round < 20; round++) {
    expect(stream.write("ab")).toBe(false);
    const room = roomIn(stream);
    next();
    await room;
  }
  expect(stream.listenerCount("close") + stream.listenerCount("drain")).toBe(0);
});

test("does not wait for a stream that has room, was closed, or is closed meanwhile", async () => {
  await expect(roomIn(slow().stream)).resolves.toBeUndefined();
  const { stream } = slow();
  stream.write("ab");
  let waits = true;
  const room = roomIn(stream).then(() => (waits = false));
  await new Promise((resolve) => setImmediate(resolve));
  expect(waits).toBe(true);
  stream.destroy();
  await room;
  await expect(roomIn(stream)).resolves.toBeUndefined();
});
