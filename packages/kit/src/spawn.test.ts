import { describe, expect, it } from "vitest";
import { spawnReporting } from "./spawn.ts";

describe("a process that reports when it is ready", () => {
  it("gives its first line and runs on", async () => {
    const line = await spawnReporting("/bin/sh", ["-c", "echo started $$; exec sleep 0.3"], {
      timeoutMs: 5_000,
    });
    expect(line).toMatch(/^started \d+$/);
    process.kill(Number(line.split(" ")[1]), 0);
  });

  it("is told apart from one that ends without a word, is silent, or is not there", async () => {
    await expect(spawnReporting("/bin/true", [], { timeoutMs: 5_000 })).rejects.toThrow("without a word");
    await expect(spawnReporting("/bin/sleep", ["10"], { timeoutMs: 50 })).rejects.toThrow("said nothing");
    await expect(spawnReporting("/no/such", [], { timeoutMs: 50, env: {} })).rejects.toThrow("ENOENT");
  });
});
