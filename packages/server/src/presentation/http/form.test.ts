import fc from "fast-check";
import { expect, test } from "vitest";
import { parseForm, percentDecode } from "./form.ts";

test("splits pairs on ampersand and semicolon", () => {
  expect({ ...parseForm("a=1&b=2;c=3") }).toEqual({ a: "1", b: "2", c: "3" });
});

test("drops what follows a second equals sign", () => {
  expect({ ...parseForm("net0=virtio,bridge=vmbr0") }).toEqual({ net0: "virtio,bridge" });
  expect({ ...parseForm("net0=virtio%2Cbridge%3Dvmbr0") }).toEqual({ net0: "virtio,bridge=vmbr0" });
});

test("treats a bare key as absent and an empty value as an empty string", () => {
  expect({ ...parseForm("bare&empty=") }).toEqual({ empty: "" });
});

test("turns a repeated key into an array", () => {
  expect({ ...parseForm("command=ls&command=-l&command=%2F") }).toEqual({ command: ["ls", "-l", "/"] });
});

test("decodes plus as space and keeps broken escapes", () => {
  expect({ ...parseForm("a=x+y&b=100%&c=%zz") }).toEqual({ a: "x y", b: "100%", c: "%zz" });
});

test("is not confused by keys of Object.prototype", () => {
  const form = parseForm("__proto__=1&constructor=2");
  expect(Object.keys(form)).toEqual(["__proto__", "constructor"]);
});

test("decodes what encodeURIComponent encoded, and never throws", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      expect(percentDecode(encodeURIComponent(text.toWellFormed()))).toBe(text.toWellFormed());
    }),
  );
  fc.assert(fc.property(fc.string(), (text) => void parseForm(text)));
});
