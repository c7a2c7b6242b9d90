import { expect, test } from "vitest";
import { keepNumberText } from "./number-text.ts";

test("numbers stay as they were written, and everything else as it was printed", () => {
  expect(keepNumberText("model=virtio,rate=1.000000", "virtio=AA:BB,rate=1")).toBe(
    "virtio=AA:BB,rate=1.000000",
  );
  expect(keepNumberText("local:1,mbps=50.0,iops=7", "local:100/x,iops=7,mbps=50,size=1G")).toBe(
    "local:100/x,iops=7,mbps=50.0,size=1G",
  );
  expect(keepNumberText("a,mbps=50.5", "b,mbps=60")).toBe("b,mbps=60");
  expect(keepNumberText("file=a,backup=on", "a,backup=1")).toBe("a,backup=1");
});
