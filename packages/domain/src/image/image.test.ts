import { describe, expect, test } from "vitest";
import { imageCatalogue, imageVolume } from "./catalogue.ts";
import { findChecksum } from "./checksum-list.ts";

const A = "a".repeat(64);
const B = "b".repeat(128);

describe("the image catalogue", () => {
  test("names every image once, with its publisher's checksums from the same place over TLS", () => {
    expect(new Set(imageCatalogue.map(({ name }) => name)).size).toBe(imageCatalogue.length);
    for (const { url, checksums, name } of imageCatalogue) {
      expect(new URL(checksums).host).toBe(new URL(url).host);
      expect(new URL(url).protocol).toBe("https:");
      expect(name).toMatch(/^[a-z]+\d*$/);
    }
    expect(imageVolume("local", "alpine")).toBe("local:import/alpine.qcow2");
  });
});

describe("a checksum list", () => {
  test("is understood in each of its forms", () => {
    expect(findChecksum(`${A}  x.img\n${B}  y.img\n`, "x.img")).toEqual({ algorithm: "sha256", value: A });
    expect(findChecksum(`${A.toUpperCase()} *x.img\n`, "x.img")).toEqual({ algorithm: "sha256", value: A });
    expect(findChecksum(`# x.img: 5 bytes\nSHA512 (x.img) = ${B}\n`, "x.img")).toEqual({
      algorithm: "sha512",
      value: B,
    });
    expect(findChecksum(`${B}\n`, "x.img")).toEqual({ algorithm: "sha512", value: B });
    expect(findChecksum(`${A}  x.img\n${B}  x.img\n`, "x.img")).toEqual({ algorithm: "sha512", value: B });
  });

  test("that does not name the file, names it twice or is weak is no checksum", () => {
    expect(findChecksum(`${A}  other.img\n`, "x.img")).toBeUndefined();
    expect(findChecksum(`${A}  x.img\n${"c".repeat(64)}  x.img\n`, "x.img")).toBeUndefined();
    expect(findChecksum(`${"d".repeat(32)}  x.img\n`, "x.img")).toBeUndefined();
    expect(findChecksum("<html>Not Found</html>", "x.img")).toBeUndefined();
    expect(findChecksum("", "x.img")).toBeUndefined();
  });
});
