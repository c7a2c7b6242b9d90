import { expect, test } from "vitest";
import { toldAddress } from "./machine-names.ts";

test("a server is told of by the address that its operator gave, and by no guess", () => {
  expect(toldAddress("192.0.2.1", undefined)).toBe("192.0.2.1");
  expect(toldAddress("0.0.0.0", "192.0.2.2")).toBe("192.0.2.2");
  expect(toldAddress("::", undefined)).toBeUndefined();
  for (const local of ["127.0.0.1", "::1", "localhost"])
    expect(toldAddress(local, "192.0.2.2")).toBeUndefined();
});
