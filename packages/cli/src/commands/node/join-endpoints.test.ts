import { expect, test } from "vitest";
import { joinEndpoints, unreachable } from "./join-endpoints.ts";

const told = ["https://10.0.0.1:8006", "https://10.0.0.2:8006"];

test("a new node is told every server, the one to join through first", () => {
  expect(joinEndpoints("https://10.0.0.2:8006/", "https://a:8006", told)).toEqual([told[1], told[0]]);
  expect(joinEndpoints(undefined, "https://a:8006", told)).toEqual(["https://a:8006", ...told]);
  expect(joinEndpoints(undefined, "https://a:8006", undefined)).toEqual(["https://a:8006"]);
});

test("the address by which a machine asks itself is for nobody else", () => {
  expect(joinEndpoints(undefined, "https://127.0.0.1:8006", told)).toEqual(told);
  const [alone = ""] = joinEndpoints(undefined, "https://127.0.0.1:8006", undefined);
  expect(unreachable(alone)).toContain("Other machines cannot reach https://127.0.0.1:8006");
  expect(unreachable("https://10.0.0.1:8006")).toBeUndefined();
});

test("what is no plain address becomes no part of a command", () => {
  for (const text of ["https://x$(reboot)", "https://x\nEOF"]) {
    expect(() => joinEndpoints(text, "https://a:8006", told)).toThrow("characters that cannot be part of it");
    expect(() => joinEndpoints(undefined, "https://a:8006", [text])).toThrow("cannot be part of it");
  }
});
