import { expect, test } from "vitest";
import { nodeNameServers } from "./node-name-servers.ts";

const listed = (files: Readonly<Record<string, string>>): readonly string[] =>
  nodeNameServers((path) => files[path]).listed;

test("name servers of a node are those it lists, or whom its own one asks", () => {
  const resolved = { "/run/systemd/resolve/resolv.conf": "nameserver 192.0.2.53\nnameserver 192.0.2.54\n" };
  expect(listed({ "/etc/resolv.conf": "nameserver 198.51.100.1\n", ...resolved })).toEqual(["198.51.100.1"]);
  expect(listed({ "/etc/resolv.conf": "nameserver 127.0.0.53\noptions edns0\n", ...resolved })).toEqual([
    "192.0.2.53",
    "192.0.2.54",
  ]);
  expect(listed({ "/etc/resolv.conf": "nameserver 127.0.0.1\n" })).toEqual([]);
  expect(listed({})).toEqual([]);
});
