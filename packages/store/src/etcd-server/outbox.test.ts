import { expect, test } from "vitest";
import { Outbox } from "./outbox.ts";

test("whoever adds large items waits for the reader, by their bytes as by their number", async () => {
  const outbox = new Outbox<number>((bytes) => bytes);
  const added: number[] = [];
  const adding = (async () => {
    for (let i = 0; i < 4; i++) {
      await outbox.put(1_500_000);
      added.push(i);
    }
    outbox.end();
  })();
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(added).toEqual([0]);
  let read = 0;
  for await (const _item of outbox) read += 1;
  await adding;
  expect([read, added.length]).toEqual([4, 4]);
});
