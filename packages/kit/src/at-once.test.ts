import { expect, test } from "vitest";
import { AtOnce } from "./at-once.ts";

test("so many run at a time, in their order, whatever becomes of them", async () => {
  const atOnce = new AtOnce(2);
  const began: number[] = [];
  const works = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  const runs = works.map(({ promise }, at) =>
    atOnce
      .run(async () => {
        began.push(at);
        await promise;
        return at;
      })
      .catch((err: unknown) => err),
  );
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  await settle();
  expect(began).toEqual([0, 1]);
  works[1]?.reject(new Error("no"));
  await settle();
  expect(began).toEqual([0, 1, 2]);
  for (const { resolve } of works) resolve();
  expect(await Promise.all(runs)).toEqual([0, new Error("no"), 2, 3, 4]);
});
