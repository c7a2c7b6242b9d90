import { expect, test } from "vitest";
import { howFrozen } from "./how-frozen.ts";

const MIB = 1024 * 1024;

test("says what standing still did on this host", () => {
  expect(howFrozen([undefined], "")).toContain("pages nothing out on demand");
  expect(howFrozen([3 * MIB, undefined], "Filename Type\n")).toMatch(/3 MiB of file pages.*no swap/);
  expect(howFrozen([200 * MIB, 28 * MIB], "Filename Type\n/dev/zram0 partition\n")).toContain(
    "228 MiB were paged out",
  );
  expect(howFrozen([1])).toContain("SIGSTOP");
});
