import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openSocketDoor } from "./socket-door.ts";

test("a door that is closed twice gives its folder back once: the number may be somebody else's file by then", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-door-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const door = await openSocketDoor(folder, { name: "a.sock", mode: 0o600 }, () => undefined);
  const failures: unknown[] = [];
  const note = (err: unknown): void => void failures.push(err);
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException").on("uncaughtException", note);
  try {
    door.close();
    door.close();
    await vi.waitFor(() => expect(existsSync(join(folder, "a.sock"))).toBe(false), { timeout: 30_000 });
    for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.removeListener("uncaughtException", note);
    for (const other of others) process.on("uncaughtException", other);
  }
  expect(failures).toEqual([]);
});
