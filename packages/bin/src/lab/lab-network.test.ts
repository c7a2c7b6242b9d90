import { expect, test } from "vitest";
import { requireFree } from "./lab-network.ts";

test("a lab whose addresses somebody else has taken meanwhile is not started beside him", () => {
  const lab = { subnet: "10.37.0.0/24", data: { path: "/var/lib/lab" } } as Parameters<typeof requireFree>[0];
  requireFree(lab, ["default", "0.0.0.0/0", "10.37.1.0/24", "10.37.1.1/24", "fe80::1/64"]);
  for (const taken of ["10.37.0.0/24", "10.37.0.1/24", "10.0.0.0/8"])
    expect(() => requireFree(lab, [taken])).toThrow(
      "10.37.0.0/24, is in use on this machine meanwhile (ip route shows by whom",
    );
});
