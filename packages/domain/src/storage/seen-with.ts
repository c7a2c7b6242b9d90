/** Whoever has one of these on a storage sees it in lists. */
export const STORAGE_SEEN_WITH = ["Datastore.Audit", "Datastore.AllocateSpace"];
