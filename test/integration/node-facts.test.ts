// Facts of the machine the test runs on, by really running guests and tools.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FactsKeeper } from "@gpve/agent/infrastructure/facts/facts-keeper.ts";
import { hostFiles } from "@gpve/agent/infrastructure/facts/host-files.ts";
import { exec } from "@gpve/kit/exec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const qemu = await exec("qemu-system-x86_64", ["--version"]).then(
  () => true,
  () => false,
);
if (!qemu)
  console.warn("SKIPPED guest probes: QEMU is missing: apt-get install -y qemu-system-x86 qemu-utils");

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-facts-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const tried = (name: string) => async () => ({ name, available: true, detail: "has tests of its own" });
const keeper = (): FactsKeeper =>
  new FactsKeeper({
    files: hostFiles,
    exec,
    log: silentLogger,
    folder,
    triedFile: join(folder, "tried-guests.json"),
    confinement: tried("confinement"),
    kata: tried("kata"),
  });

describe("facts of this machine", () => {
  test("are tried: every capability works or carries its fix", async () => {
    const facts = keeper();
    await facts.load();
    await facts.refresh();
    const found = facts.facts().facts;
    expect(found.cpu.cpus).toBeGreaterThan(0);
    expect(found.memoryBytes).toBeGreaterThan(0);
    expect(found.bootId).toMatch(/^[0-9a-f-]{36}$/);
    for (const { name, available, detail, fix } of found.capabilities) {
      expect(detail, name).not.toBe("");
      expect(available || (fix ?? "") !== "", `${name} lacks its fix`).toBe(true);
    }
  });

  test.skipIf(!qemu)(
    "a guest ran under the accelerator they name, and the next start knows it at once",
    async () => {
      const again = keeper();
      const before = performance.now();
      await again.load();
      const loadMs = performance.now() - before;
      const { accelerator } = again.facts().facts;
      expect(["kvm", "tcg"]).toContain(accelerator);
      await again.refresh();
      // Read, not looked at again: that runs a dozen programs.
      expect(loadMs).toBeLessThan(performance.now() - before - loadMs);
      const named = again.facts().facts.capabilities.find(({ name }) => name === accelerator);
      expect(named).toMatchObject({ available: true, detail: `a guest ran under ${accelerator}` });
      expect(again.facts().facts.qemu?.machines).toContain("q35");
    },
  );
});
