// Files that wait for most of their time: for leases to run out, for guests to be missed, for what a calendar says. One after
// the other they run beside the two workers that compute. Whatever computes belongs into the other two: an emulated guest that
// shares its core boots in twice the time.

export const waitingFiles: readonly string[] = [
  "test/integration/talos-story.test.ts",
  "test/integration/ha.test.ts",
  "test/integration/lab.test.ts",
  "test/integration/store-etcd.test.ts",
  "test/integration/etcd-server/conformance.test.ts",
  "test/integration/embedded-etcd.test.ts",
  "test/integration/store-quorum.test.ts",
  "test/integration/operations-etcd.test.ts",
  "test/integration/vcluster-etcd-standby.test.ts",
  "test/integration/vm-backup-jobs.test.ts",
];
