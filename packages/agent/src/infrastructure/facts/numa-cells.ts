// NUMA cells of the machine, as the kernel shows them.
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { HostFiles } from "./host-files.ts";

const FOLDER = "/sys/devices/system/node";

export async function readNumaCells(files: HostFiles): Promise<NonNullable<NodeFacts["numa"]>> {
  const names = (await files.list(FOLDER)).filter((name) => /^node\d+$/.test(name));
  const numbered = names.toSorted((a, b) => Number(a.slice(4)) - Number(b.slice(4)));
  return Promise.all(
    numbered.map(async (name) => {
      const read = async (file: string): Promise<string> =>
        (await files.read(`${FOLDER}/${name}/${file}`)) ?? "";
      const kib = /MemTotal:\s*(\d+) kB/.exec(await read("meminfo"))?.[1];
      return { cpus: countCpus(await read("cpulist")), memoryBytes: Number(kib ?? 0) * 1024 };
    }),
  );
}

/** "0-3,8" are five. */
function countCpus(list: string): number {
  return list
    .trim()
    .split(",")
    .filter((range) => range !== "")
    .reduce((sum, range) => {
      const [first = 0, last = first] = range.split("-").map(Number);
      return sum + last - first + 1;
    }, 0);
}
