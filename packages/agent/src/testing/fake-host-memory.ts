// Memory of a host that has as many huge pages as a test says.
import type { HugepageNeed } from "@gpve/domain/vm/argv/processor/hugepage-needs.ts";
import { hugepageFolder, sharedMemoryPath, type HostMemory } from "@gpve/domain/vm/host/host-memory.ts";

export class FakeHostMemory implements HostMemory {
  readonly shared = new Set<string>();
  readonly folders = new Set<string>();
  /** Needs of the starts so far, with whether they were to be kept. */
  readonly taken: { readonly needs: readonly HugepageNeed[]; readonly keep: boolean }[] = [];

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
    const folders = [...new Set(needs.map(({ sizeMiB }) => hugepageFolder(sizeMiB, guest)))];
    if (needs.length > 0) this.taken.push({ needs, keep });
    for (const folder of folders) this.folders.add(folder);
    return start(folders);
  }

  async dropFolders(guest: string): Promise<void> {
    for (const folder of this.folders) if (folder.endsWith(`/${guest}`)) this.folders.delete(folder);
  }
}
