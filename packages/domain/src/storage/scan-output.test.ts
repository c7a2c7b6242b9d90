import { describe, expect, it } from "vitest";
import { parseExports, parseShares } from "./scan-output.ts";

describe("what servers offer", () => {
  it("is read from showmount, blanks in paths included", () => {
    expect(parseExports("/srv/a     10.0.0.0/24,10.1.0.0/24\n/srv/b c *\n\nnonsense\n")).toEqual([
      { path: "/srv/a", options: "10.0.0.0/24,10.1.0.0/24" },
      { path: "/srv/b c", options: "*" },
    ]);
  });

  it("is read from smbclient: disks, not printers", () => {
    expect(
      parseShares("Disk|vms|Disks | of guests\nPrinter|lp|x\nIPC|IPC$|IPC\nDisk|iso|\nServer|X|y\n"),
    ).toEqual([
      { share: "vms", description: "Disks | of guests" },
      { share: "iso", description: "" },
    ]);
  });
});
