import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hostMemoryConformance } from "../../testing/host-memory-conformance.ts";
import { LinuxHostMemory } from "./host-memory.ts";

let root: string;
let mounts: string[][];
let memory: LinuxHostMemory;

const pool = (node = 0) => join(root, `sys/devices/system/node/node${node}/hugepages/hugepages-2048kB`);
const total = (node = 0) => readFileSync(join(pool(node), "nr_hugepages"), "utf8");
const need = (count: number, node = 0) => ({ sizeMiB: 2, node, count });

/** The kernel of this host adds pages at once; a test says how many are free then. */
function havePages(values: { total: number; free: number; surplus?: number }, node = 0): void {
  mkdirSync(pool(node), { recursive: true });
  writeFileSync(join(pool(node), "nr_hugepages"), String(values.total));
  writeFileSync(join(pool(node), "free_hugepages"), String(values.free));
  writeFileSync(join(pool(node), "surplus_hugepages"), String(values.surplus ?? 0));
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "gpve-memory-"));
  mkdirSync(join(root, "proc"));
  mkdirSync(join(root, "dev/shm"), { recursive: true });
  writeFileSync(join(root, "proc/mounts"), "proc /proc proc rw 0 0\n");
  mounts = [];
  memory = new LinuxHostMemory({
    root,
    exec: async (_program, args) => {
      mounts.push([...args]);
      return { code: 0, stdout: "", stderr: "" };
    },
  });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("memory of a host as files", () => {
  hostMemoryConformance(() => {
    havePages({ total: 4, free: 4 });
    return { memory, pages: 4, has: (path) => existsSync(join(root, path)) };
  });
});

describe("huge pages", () => {
  it("are there while a guest starts, and its own with it after", async () => {
    havePages({ total: 10, free: 8, surplus: 4 });
    const folders = await memory.withHugepages("100", [need(8)], false, async (given) => {
      expect(total()).toBe("10");
      return given;
    });
    expect(folders).toEqual(["/run/hugepages/kvm/2048kB/100"]);
    expect(statSync(join(root, folders[0] ?? "")).mode & 0o777).toBe(0o700);
    expect(mounts).toEqual([
      ["-t", "hugetlbfs", "-o", "pagesize=2048k", "hugetlbfs", join(root, "/run/hugepages/kvm/2048kB")],
    ]);
    // Four of the ten were other guests': the host keeps six, the rest goes when guests end.
    expect(total()).toBe("6");
    await memory.dropFolders("100");
    expect(() => statSync(join(root, folders[0] ?? ""))).toThrow("ENOENT");
  });

  it("stay when they are to be kept, unless the guest does not start", async () => {
    havePages({ total: 0, free: 4 });
    await memory.withHugepages("100", [need(4)], true, async () =>
      writeFileSync(join(pool(), "nr_hugepages"), "4"),
    );
    expect(total()).toBe("4");
    const failing = memory.withHugepages("100", [need(4)], true, async () => {
      writeFileSync(join(pool(), "nr_hugepages"), "9");
      throw new Error("QEMU said no");
    });
    await expect(failing).rejects.toThrow("QEMU said no");
    expect(existsSync(join(root, "/run/hugepages/kvm/2048kB/100"))).toBe(false);
    expect(total()).toBe("4");
  });

  it("that the host cannot give leave everything as it was", async () => {
    havePages({ total: 2, free: 2 });
    havePages({ total: 1, free: 1 }, 1);
    const start = memory.withHugepages("100", [need(2), need(5, 1)], false, async () => "never");
    await expect(start).rejects.toThrow(
      "hugepage allocation failed: node 1 has 1 of 5 pages of 2 MiB in one piece",
    );
    expect([total(), total(1)]).toEqual(["2", "1"]);
    const absent = memory.withHugepages("100", [need(1, 7)], false, async () => "never");
    await expect(absent).rejects.toThrow("cannot set the pages of 2 MiB of node 7");
  });

  it("are given to one start at a time, and a mount that is there is used", async () => {
    havePages({ total: 1, free: 1 });
    writeFileSync(join(root, "proc/mounts"), "hugetlbfs /run/hugepages/kvm/2048kB hugetlbfs rw 0 0\n");
    const order: string[] = [];
    const start = (name: string) =>
      memory.withHugepages(name, [need(1)], false, async () => {
        order.push(`${name} begins`);
        await Promise.resolve();
        order.push(`${name} ends`);
      });
    await Promise.all([start("100"), start("101")]);
    expect(order).toEqual(["100 begins", "100 ends", "101 begins", "101 ends"]);
    expect(mounts).toEqual([]);
    expect(await memory.withHugepages("102", [], false, async (folders) => folders)).toEqual([]);
  });
});

it("shared memory is not made where a link leads", async () => {
  symlinkSync(join(root, "elsewhere"), join(root, "dev/shm/pve-shm-disk"));
  await expect(memory.share("disk")).rejects.toThrow("ELOOP");
  expect(existsSync(join(root, "elsewhere"))).toBe(false);
});

it("shared memory is an empty file until guests fill it", async () => {
  expect(await memory.share("disk")).toBe("/dev/shm/pve-shm-disk");
  const file = join(root, "dev/shm/pve-shm-disk");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  writeFileSync(file, "kept");
  chmodSync(file, 0o640);
  await memory.share("disk");
  expect(readFileSync(file, "utf8")).toBe("kept");
  await memory.forget("disk");
  await memory.forget("disk");
  expect(() => statSync(file)).toThrow("ENOENT");
});
