// Memory of the host that guests open by a path: shared between them, or made of huge pages.
import type { HugepageNeed } from "../argv/processor/hugepage-needs.ts";

export interface HostMemory {
  /** The file of the memory that VMs share under a name; made empty when it is not there. */
  share(name: string): Promise<string>;
  /** Guests that have it open keep it; the next one to come gets another. */
  forget(name: string): Promise<void>;
  /**
   * Runs `start` while the pages are free for it, one start at a time; it gets the folders they are in. Afterwards the
   * host's pool is as big as before, and what the guest uses goes back to the host with its end. `keep` leaves them.
   */
  withHugepages<T>(
    guest: string,
    needs: readonly HugepageNeed[],
    keep: boolean,
    start: (folders: readonly string[]) => Promise<T>,
  ): Promise<T>;
  /** After a guest's end. */
  dropFolders(guest: string): Promise<void>;
}

/** Where PVE has it, as programs on the host look for it there. */
export function sharedMemoryPath(name: string): string {
  return `/dev/shm/pve-shm-${name}`;
}

/** A folder for each guest: they are different users. */
export function hugepageFolder(sizeMiB: number, guest: string): string {
  return `/run/hugepages/kvm/${sizeMiB * 1024}kB/${guest}`;
}
