// Which backup each VM's bitmaps belong to, in the cluster's store below this node's own data.
import {
  isChain,
  type BackupChain,
  type BackupChains,
  type GuestChains,
} from "@gpve/domain/backup/backup-chain.ts";
import type { Records } from "@gpve/store/records/port.ts";

export function storedChains(deps: {
  readonly node: string;
  /** Throws store.unavailable while no server is in reach. */
  readonly records: () => Records;
}): BackupChains {
  const collection = {
    prefix: `/gpve/node-data/${deps.node}/backup-chains/`,
    decode: (json: unknown) => json as GuestChains,
    encode: (chains: GuestChains): unknown => chains,
  };
  const change = (vmid: number, next: (chains: GuestChains) => GuestChains): Promise<void> =>
    deps.records().transact((tx) => {
      const before = tx.get(collection, String(vmid))?.value ?? {};
      const after = next(before);
      if (after === before) return;
      if (Object.keys(after).length === 0) tx.delete(collection, String(vmid));
      else tx.put(collection, String(vmid), after);
    });
  return {
    get: (vmid) => deps.records().collection(collection).get(String(vmid))?.value ?? {},
    set: (vmid: number, storage: string, chain: BackupChain) =>
      change(vmid, (chains) => ({ ...chains, [storage]: chain })),
    drop: (vmid, why) =>
      change(vmid, (chains) =>
        Object.values(chains).some((state) => isChain(state))
          ? Object.fromEntries(
              Object.entries(chains).map(([storage, state]) => [
                storage,
                isChain(state) ? { dropped: why } : state,
              ]),
            )
          : chains,
      ),
    forget: (vmid) => change(vmid, (chains) => (Object.keys(chains).length === 0 ? chains : {})),
  };
}
