import { expect, test } from "vitest";
import { VmBackupRequestSchema } from "@gpve/contracts/v1/bodies.ts";
import { VcBackupRequestSchema } from "@gpve/contracts/v1/vc-save-bodies.ts";
import { Validator } from "../../application/v1/validation.ts";
import { scaleAsk, sleepMode, wantedVersion } from "./vc-bodies.ts";

test("a version is said in one word or the other, and in both where they agree", () => {
  expect(wantedVersion({ targetVersion: "v1.36" })).toEqual({ version: "1.36", drain: false });
  expect(wantedVersion({ version: "1.36", targetVersion: "1.36", drain: true })).toEqual({
    version: "1.36",
    drain: true,
  });
  expect(() => wantedVersion({})).toThrow("version is missing");
  for (const version of ["v", "latest", "1", "1.36; rm"])
    expect(() => wantedVersion({ version })).toThrow("is none: say 1.36");
  expect(() => wantedVersion({ version: "1.36", targetVersion: "1.35" })).toThrow("differ");
});

test("a number of workers is said in one place", () => {
  expect(scaleAsk({ count: 2 })).toEqual({ count: 2 });
  expect(scaleAsk({ count: 2, pool: "a" })).toEqual({ count: 2, pool: "a" });
  expect(scaleAsk({ workerNodes: { count: 3, pool: "a" } })).toEqual({ count: 3, pool: "a" });
  expect(() => scaleAsk({ count: 2, workerNodes: { count: 2 } })).toThrow("say one of them");
  expect(() => scaleAsk({ pool: "a" })).toThrow("count is missing");
});

test("a way to sleep is said in the query or the body, cold where in none", () => {
  expect([sleepMode(undefined), sleepMode("warm"), sleepMode(undefined, { mode: "warm" })]).toEqual([
    "cold",
    "warm",
    "warm",
  ]);
  expect(sleepMode("cold", { mode: "cold" })).toBe("cold");
  expect(() => sleepMode("cold", { mode: "warm" })).toThrow("warm in the body");
});

test("a backup that names no storage names none: servers know which is for backups", () => {
  const validator = new Validator();
  for (const schema of [VmBackupRequestSchema, VcBackupRequestSchema])
    expect(validator.check(schema, {}, "the body")).not.toHaveProperty("storage");
});
