// What those who start guests may rely on where memory of the host has a path: run on the fake and on files.
import { beforeEach, expect, it } from "vitest";
import type { HostMemory } from "@gpve/domain/vm/host/host-memory.ts";

export interface MemoryUnderTest {
  /** Of a host with this many pages of 2 MiB that nobody uses. */
  readonly memory: HostMemory;
  readonly pages: number;
  /** Whether something is at a path that `memory` gave. */
  has(path: string): boolean;
}

export function hostMemoryConformance(open: () => MemoryUnderTest): void {
  let under: MemoryUnderTest;
  beforeEach(() => {
    under = open();
  });
  const need = (count: number) => ({ sizeMiB: 2, node: 0, count });

  it("shares memory by a name until that is forgotten", async () => {
    const { memory } = under;
    const path = await memory.share("disk");
    expect(await memory.share("disk")).toBe(path);
    expect(await memory.share("other")).not.toBe(path);
    expect(under.has(path)).toBe(true);
    await memory.forget("disk");
    await memory.forget("disk");
    expect(under.has(path)).toBe(false);
  });

  it("gives a guest folders of pages for its start, which are its own until it has ended", async () => {
    const { memory, pages } = under;
    const seen = await memory.withHugepages("100", [need(1), need(pages - 1)], false, async (folders) => {
      expect(folders.map((folder) => under.has(folder))).toEqual([true]);
      return folders;
    });
    expect(seen.every((folder) => under.has(folder) && folder.endsWith("/100"))).toBe(true);
    await memory.dropFolders("101");
    expect(seen.every((folder) => under.has(folder))).toBe(true);
    await memory.dropFolders("100");
    expect(seen.some((folder) => under.has(folder))).toBe(false);
    expect(await memory.withHugepages("100", [], false, async (folders) => folders)).toEqual([]);
  });

  it("takes back what a start that failed had, and starts nobody without pages", async () => {
    const { memory, pages } = under;
    let folder = "";
    const failing = memory.withHugepages("100", [need(1)], false, async ([first = ""]) => {
      folder = first;
      throw new Error("QEMU said no");
    });
    await expect(failing).rejects.toThrow("QEMU said no");
    expect(under.has(folder)).toBe(false);
    let began = false;
    const greedy = memory.withHugepages("100", [need(pages + 1)], false, async () => {
      began = true;
    });
    await expect(greedy).rejects.toMatchObject({ code: "capacity.exceeded" });
    await expect(greedy).rejects.toThrow("hugepage allocation failed");
    expect(began).toBe(false);
  });

  it("lets one start at a time look for pages", async () => {
    const order: string[] = [];
    const start = (guest: string) =>
      under.memory.withHugepages(guest, [need(1)], false, async () => {
        order.push(`${guest} begins`);
        await new Promise((resolve) => setImmediate(resolve));
        order.push(`${guest} has begun`);
      });
    await Promise.all([start("100"), start("101")]);
    expect(order).toEqual(["100 begins", "100 has begun", "101 begins", "101 has begun"]);
  });
}
