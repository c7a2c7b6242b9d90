// Shared memory as files in /dev/shm, huge pages as hugetlbfs with pools set by sysfs.
import { constants, existsSync } from "node:fs";
import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { HugepageNeed } from "@gpve/domain/vm/argv/processor/hugepage-needs.ts";
import { hugepageFolder, sharedMemoryPath, type HostMemory } from "@gpve/domain/vm/host/host-memory.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface HostMemoryDeps {
  readonly exec: Exec;
  /** In front of every path: a made-up host in tests. */
  readonly root?: string;
}

const SIZES_MIB = [2, 1024];

/** One pool of pages: a size on a node. */
interface Pool {
  readonly need: HugepageNeed;
  /** Pages the host keeps whoever uses them; what guests hold beyond goes when they do. */
  readonly kept: number;
}

export class LinuxHostMemory implements HostMemory {
  readonly #exec: Exec;
  readonly #root: string;
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ exec, root = "" }: HostMemoryDeps) {
    this.#exec = exec;
    this.#root = root;
  }

  async share(name: string): Promise<string> {
    const path = sharedMemoryPath(name);
    // Everybody may put a link into /dev/shm.
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;
    const file = await open(this.#root + path, flags, 0o600);
    await file.close();
    return path;
  }

  async forget(name: string): Promise<void> {
    await rm(this.#root + sharedMemoryPath(name), { force: true });
  }

  async withHugepages<T>(
    guest: string,
    needs: readonly HugepageNeed[],
    keep: boolean,
    start: (folders: readonly string[]) => Promise<T>,
  ): Promise<T> {
    if (needs.length === 0) return start([]);
    // Free pages belong to nobody: a second start at the same time would take them.
    const before = this.#turn;
    const result = before.then(() => this.#inTurn(guest, needs, keep, start));
    this.#turn = result.catch((err: unknown) => ignore(err, "told to whoever started the guest"));
    return result;
  }

  async dropFolders(guest: string): Promise<void> {
    for (const sizeMiB of SIZES_MIB)
      await rm(this.#root + hugepageFolder(sizeMiB, guest), { recursive: true, force: true });
  }

  async #inTurn<T>(
    guest: string,
    needs: readonly HugepageNeed[],
    keep: boolean,
    start: (folders: readonly string[]) => Promise<T>,
  ): Promise<T> {
    const pools: Pool[] = [];
    let started = false;
    try {
      const folders = await this.#mount(guest, needs);
      for (const need of needs) {
        const [total, free, surplus] = await Promise.all([
          this.#read(need, "nr_hugepages"),
          this.#read(need, "free_hugepages"),
          this.#read(need, "surplus_hugepages"),
        ]);
        pools.push({ need, kept: total - surplus });
        if (need.count > free) await this.#grow(need, total + need.count - free);
      }
      const result = await start(folders);
      started = true;
      return result;
    } finally {
      if (!started) await this.dropFolders(guest);
      if (!started || !keep) for (const { need, kept } of pools) await this.#write(need, kept);
    }
  }

  async #mount(guest: string, needs: readonly HugepageNeed[]): Promise<readonly string[]> {
    const sizes = [...new Set(needs.map(({ sizeMiB }) => sizeMiB))];
    const mounts = await readFile(`${this.#root}/proc/mounts`, "utf8");
    return Promise.all(
      sizes.map(async (sizeMiB) => {
        const folder = hugepageFolder(sizeMiB, guest);
        const point = dirname(folder);
        await mkdir(this.#root + point, { recursive: true });
        if (!mounts.includes(` ${point} hugetlbfs `)) {
          const options = `pagesize=${sizeMiB * 1024}k`;
          await this.#exec("mount", ["-t", "hugetlbfs", "-o", options, "hugetlbfs", this.#root + point]);
        }
        await mkdir(this.#root + folder, { recursive: true, mode: 0o700 });
        return folder;
      }),
    );
  }

  async #grow(need: HugepageNeed, total: number): Promise<void> {
    await this.#write(need, total);
    const free = await this.#read(need, "free_hugepages");
    if (free >= need.count) return;
    const size = `${need.sizeMiB} MiB`;
    throw new AppError(
      "capacity.exceeded",
      `hugepage allocation failed: node ${need.node} has ${free} of ${need.count} pages of ${size} in one piece`,
      { pveStatus: 500 },
    );
  }

  async #read(need: HugepageNeed, name: string): Promise<number> {
    const path = join(this.#folder(need), name);
    return existsSync(path) ? Number(await readFile(path, "utf8")) : 0;
  }

  async #write(need: HugepageNeed, pages: number): Promise<void> {
    try {
      await writeFile(join(this.#folder(need), "nr_hugepages"), String(pages));
    } catch (cause) {
      throw new AppError(
        "capacity.exceeded",
        `hugepage allocation failed: cannot set the pages of ${need.sizeMiB} MiB of node ${need.node}: ${messageOf(cause)}`,
        { cause, pveStatus: 500 },
      );
    }
  }

  #folder({ sizeMiB, node }: HugepageNeed): string {
    const size = `hugepages-${sizeMiB * 1024}kB`;
    return `${this.#root}/sys/devices/system/node/node${node}/hugepages/${size}`;
  }
}
