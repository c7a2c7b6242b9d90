import { expect, test } from "vitest";
import { pinnedMachine } from "./new-machine.ts";

test("the machine of a Windows guest is written down with its version", () => {
  expect(pinnedMachine(undefined, "win11", "9.0.2")).toBe("pc-i440fx-9.0");
  expect(pinnedMachine("q35,viommu=intel", "win10", "7.2.22")).toBe("pc-q35-7.2,viommu=intel");
  expect(pinnedMachine("pc-q35-6.2", "win11", "9.0.2")).toBeUndefined();
  expect(pinnedMachine("q35", "l26", "9.0.2")).toBeUndefined();
  expect(pinnedMachine(undefined, "win11", "0")).toBeUndefined();
});

test("parts of a machine that do not fit together are refused for every guest", () => {
  expect(() => pinnedMachine("pc,viommu=intel", "l26", "9.0.2")).toThrow(
    "to use Intel vIOMMU please set the machine type to q35",
  );
});
