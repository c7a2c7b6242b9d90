import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeBase64Text } from "./base64-text.ts";
import { device, deviceArguments, deviceText } from "./option-text.ts";
import { splitArguments } from "./split-arguments.ts";

test("no value of a device can add a property of its own", () => {
  fc.assert(
    fc.property(fc.string(), (serial) => {
      const text = deviceText(device("scsi-hd", ["serial", serial], ["id", "scsi0"]));
      // As QEMU reads it: two commas are one, a single one ends the value.
      const parts = text.replaceAll(",,", "\0").split(",");
      expect(parts.map((part) => part.replaceAll("\0", ","))).toEqual([
        "scsi-hd",
        `serial=${serial.replaceAll("\0", ",")}`,
        "id=scsi0",
      ]);
    }),
  );
});

test("device options are the same on the command line and over QMP", () => {
  const options = device("virtio-net-pci", ["mq", true], ["vectors", 6], ["mac", undefined], ["id", "net0"]);
  expect(deviceText(options)).toBe("virtio-net-pci,mq=on,vectors=6,id=net0");
  expect(deviceArguments(options)).toEqual({ driver: "virtio-net-pci", mq: true, vectors: 6, id: "net0" });
});

test("quoted words come apart as they were put together", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (words) => {
      const text = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
      expect(splitArguments(text)).toEqual(words);
    }),
  );
});

test("base64 gives back any text", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      expect(decodeBase64Text(Buffer.from(text, "utf8").toString("base64"))).toBe(text);
    }),
  );
});
