// Locks on a guest whose work ended with the lost node and left the guest as it was or as it can be started.

const LEFTOVER = new Set([
  "backup",
  "clone",
  "migrate",
  "mounted",
  "rollback",
  "snapshot",
  "snapshot-delete",
  "suspended",
  "suspending",
]);

/** Others say that the guest is not whole (a create or restore that was broken off): the operator decides. */
export function isLeftover(lock: string | undefined): lock is string {
  return lock !== undefined && LEFTOVER.has(lock);
}
