import { describe, expect, test } from "vitest";
import { calledAs } from "./called-as.ts";

describe("commands in hints", () => {
  test("are as they stand where gpvectl is on the path", () => {
    expect(calledAs({ env: {} })("gpvectl: no. Start it: gpvectl vm start 100.")).toBe(
      "gpvectl: no. Start it: gpvectl vm start 100.",
    );
  });

  test("name the launcher, and the server that was chosen", () => {
    const env = { GPVE_CALLED_AS: "./gpve ctl" };
    expect(calledAs({ env })("gpvectl: no. Start it: gpvectl vm start 100.")).toBe(
      "gpvectl: no. Start it: ./gpve ctl vm start 100.",
    );
    expect(calledAs({ env }, { data: "/a b/c" })("Usage: gpvectl [options]\n  gpvectl vm list")).toBe(
      "Usage: ./gpve ctl --data '/a b/c' [options]\n  ./gpve ctl --data '/a b/c' vm list",
    );
    expect(calledAs({ env: {} }, { context: "lab" })("`gpvectl status`")).toBe(
      "`gpvectl --context lab status`",
    );
  });
});
