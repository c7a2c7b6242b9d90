import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { HOST_NETWORK_REASONS, hostNetworkReason } from "./host-network.ts";

test("only `args` and disks on the network keep QEMU in the host's network namespace", () => {
  const file = { driver: "file", filename: "/a" };
  expect(hostNetworkReason({}, [])).toBeUndefined();
  expect(hostNetworkReason({ args: "  " }, [file, { driver: "host_device" }])).toBeUndefined();
  expect(hostNetworkReason({}, [{ driver: "nbd", server: { type: "unix", path: "/s" } }])).toBeUndefined();
  expect(hostNetworkReason({ args: "-device x" }, [file])).toBe("args");
  expect(hostNetworkReason({}, [file, { driver: "rbd" }])).toBe("networkDisk");
  expect(hostNetworkReason({}, [{ driver: "nbd", server: { type: "inet" } }])).toBe("networkDisk");
});

test("the page on isolation lists exactly these reasons", () => {
  const page = readFileSync(
    new URL("../../../../../docs/reference/guest-isolation.md", import.meta.url),
    "utf8",
  );
  const [, section = ""] = /## The network namespace\n([\s\S]*?)\n## /.exec(page) ?? [];
  const listed = [...section.matchAll(/^- (.+)$/gm)].map(([, reason]) => reason);
  expect(listed).toEqual(Object.values(HOST_NETWORK_REASONS));
});
