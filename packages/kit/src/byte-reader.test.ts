import { expect, test } from "vitest";
import { ByteReader } from "./byte-reader.ts";

async function* chunks(...texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}
const reading = (...texts: readonly string[]): ByteReader =>
  new ByteReader(chunks(...texts), (what) => new Error(`greeting: ${what}`));

test("gives as many bytes as are asked for, however they come, and then the rest", async () => {
  const reader = reading("ab", "", "cde", "f", "gh");
  expect(String(await reader.take(3))).toBe("abc");
  expect(await reader.take(0)).toHaveLength(0);
  const rest: Buffer[] = [];
  for await (const chunk of reader.remainder()) rest.push(Buffer.from(chunk));
  expect(String(Buffer.concat(rest))).toBe("defgh");
});

test("tells an end in the middle from one between two things", async () => {
  expect(await reading().takeOrEnd(2)).toBeUndefined();
  await expect(reading("a").takeOrEnd(2)).rejects.toThrow("greeting: it ends too early");
  await expect(reading().take(1)).rejects.toThrow("greeting: it ends too early");
});
