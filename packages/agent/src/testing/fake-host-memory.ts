// Memory of a host that has as many huge pages as a test says.
import { AppError } from "@gpve/contracts/errors.ts";
import type { HugepageNeed } from "@gpve/domain/vm/argv/processor/hugepage-needs.ts";
import { hugepageFolder, sharedMemoryPath, type HostMemory } from "@gpve/domain/vm/host/host-memory.ts";

export class FakeHostMemory implements HostMemory {
  readonly shared = new Set<string>();
  readonly folders = new Set<string>();
  /** Needs of the starts so far, with whether they were to be kept. */
  readonly taken: { readonly needs: readonly HugepageNeed[]; readonly keep: boolean }[] = [];
  /** How many of each size any start may have. */
  readonly pages: number;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(pages = Infinity) {
    this.pages = pages;
  }

  async share(name: string): Promise<string> {
    this.shared.add(name);
    return sharedMemoryPath(name);
  }

  async forget(name: string): Promise<void> {
    this.shared.delete(name);
  }

  async withHugepages<T>(
    guest: string,
    needs: readonly HugepageNeed[],
    keep: boolean,
    start: (folders: readonly string[]) => Promise<T>,
  ): Promise<T> {
    if (needs.length === 0) return start([]);
    const result = this.#turn.then(() => this.#inTurn(guest, needs, keep, start));
    this.#turn = result.catch(() => undefined);
    return result;
  }

  async #inTurn<T>(
    guest: string,
    needs: readonly HugepageNeed[],
    keep: boolean,
    start: (folders: readonly string[]) => Promise<T>,
  ): Promise<T> {
    const short = needs.find(({ count }) => count > this.pages);
    if (short !== undefined) {
      const text = `hugepage allocation failed: ${this.pages} of ${short.count} pages`;
      throw new AppError("capacity.exceeded", text, { pveStatus: 500 });
    }
    const folders = [...new Set(needs.map(({ sizeMiB }) => hugepageFolder(sizeMiB, guest)))];
    this.taken.push({ needs, keep });
    for (const folder of folders) this.folders.add(folder);
    try {
      return await start(folders);
    } catch (err) {
      await this.dropFolders(guest);
      throw err;
    }
  }

  async dropFolders(guest: string): Promise<void> {
    for (const folder of this.folders) if (folder.endsWith(`/${guest}`)) this.folders.delete(folder);
  }
}
