import { expect, test } from "vitest";
import { forAMoment } from "./for-a-moment.ts";

test("those who ask at once or shortly after share an answer; a failure is asked again", async () => {
  let now = 0;
  let reads = 0;
  let fails = false;
  const read = forAMoment(
    async (key: "a" | "b") => {
      reads++;
      if (fails) throw new Error("no");
      return `${key}${reads}`;
    },
    1_000,
    () => now,
  );
  expect(await Promise.all([read("a"), read("a"), read("b")])).toEqual(["a1", "a1", "b2"]);
  now = 999;
  expect(await read("a")).toBe("a1");
  now = 1_000;
  expect(await read("a")).toBe("a3");
  now = 5_000;
  fails = true;
  await expect(read("a")).rejects.toThrow("no");
  fails = false;
  expect(await read("a")).toBe("a5");
});
