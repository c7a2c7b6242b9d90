import { expect, test } from "vitest";
import type { HostFiles } from "./host-files.ts";
import { readNumaCells } from "./numa-cells.ts";

const files = {
  list: async (path: string) => (path.endsWith("/node") ? ["node10", "node2", "online"] : []),
  read: async (path: string) =>
    ({
      "/sys/devices/system/node/node2/cpulist": "0-3,8\n",
      "/sys/devices/system/node/node2/meminfo": "Node 2 MemTotal:       4 kB\nNode 2 MemFree: 1 kB\n",
      "/sys/devices/system/node/node10/cpulist": "\n",
    })[path],
} as unknown as HostFiles;

test("cells come in the order of their numbers, with their CPUs and memory; one without either has none", async () => {
  expect(await readNumaCells(files)).toEqual([
    { cpus: 5, memoryBytes: 4096 },
    { cpus: 0, memoryBytes: 0 },
  ]);
});
