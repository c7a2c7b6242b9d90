import { expect, test } from "vitest";
import { schematicId, writeSchematic } from "./schematic.ts";

const plain = { extensions: [], kernelArgs: [] };

test("names are those the factory publishes", () => {
  expect(schematicId(plain)).toBe("376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba");
  expect(schematicId({ ...plain, extensions: ["siderolabs/qemu-guest-agent"] })).toBe(
    "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
  );
});

test("extensions are sorted and written once, kernel arguments stay in order", () => {
  expect(
    writeSchematic({
      extensions: ["siderolabs/b", "siderolabs/a", "siderolabs/b"],
      kernelArgs: ["-console", "console=ttyS0,115200", "a=b:c"],
    }),
  ).toBe(`customization:
    extraKernelArgs:
        - -console
        - console=ttyS0,115200
        - a=b:c
    systemExtensions:
        officialExtensions:
            - siderolabs/a
            - siderolabs/b
`);
});

test.each(["", "a b", "a: b", "a:", "#x", "'x'", "1", "a\nb", "- x"])("%j is refused", (text) => {
  expect(() => schematicId({ ...plain, kernelArgs: [text] })).toThrow("cannot be part of a schematic");
});
