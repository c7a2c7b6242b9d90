import { expect, it } from "vitest";
import { ksmShared } from "./ksm.ts";

it("counts pages that the kernel shares", async () => {
  expect(await ksmShared({ read: async () => "3\n" })).toBe(12_288);
  expect(await ksmShared({ read: async () => undefined })).toBe(0);
});
