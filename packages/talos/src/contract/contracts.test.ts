import { expect, test } from "vitest";
import { contractOf, contracts } from "./contracts.ts";

test("a version belongs to the contract of its minor, however it is written", () => {
  for (const version of ["v1.13.9", "1.13.0", "v1.13", "1.13", "v1.13.0-rc.1"]) {
    expect(contractOf(version).name).toBe("v1.13");
  }
  for (const name of Object.keys(contracts)) expect(contractOf(name).name).toBe(name);
});

test("a version outside the known contracts is refused with the nearest that works", () => {
  expect(() => contractOf("v1.10.4")).toThrow(/v1\.10\.4.*the nearest is v1\.11/);
  expect(() => contractOf("0.14.0")).toThrow(/the nearest is v1\.11/);
  expect(() => contractOf("v1.15.0")).toThrow(/the nearest is v1\.14/);
  expect(() => contractOf("v2.0.0")).toThrow(/the nearest is v1\.14/);
});

test("what is no version is refused", () => {
  for (const version of ["", "latest", "v1", "1.13.9.1", "v1.13.9; rm"]) {
    expect(() => contractOf(version)).toThrow("is no Talos version");
  }
});
