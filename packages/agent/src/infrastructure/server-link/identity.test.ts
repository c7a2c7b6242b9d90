import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, onTestFinished, test } from "vitest";
import { IdentityStore } from "./identity.ts";

test("whoever needs a node's certificate is told who gets it", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-identity-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const identities = new IdentityStore({ dir, clock: new FakeClock() });
  expect(await identities.load("n1")).toBeUndefined();
  await expect(identities.require("n1")).rejects.toThrow("node n1 has not joined a cluster yet");
});
