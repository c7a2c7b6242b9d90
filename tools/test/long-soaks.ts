// What is worth hours, not minutes: `./gpve test --long` runs it after everything else.

export interface LongSoak {
  readonly name: string;
  readonly file: string;
  /** Beside the code it tests, not among the integration tests. */
  readonly isUnit?: true;
  /** Nothing of the file is in the short run: what it shows is seen there more cheaply, or in unit tests alone. */
  readonly isWhole?: true;
  readonly env: Readonly<Record<string, string>>;
}

export const longSoaks: readonly LongSoak[] = [
  {
    name: "a million broken inputs for each reader of foreign bytes",
    file: "test/integration/fuzz-readers.test.ts",
    env: { GPVE_FUZZ_INPUTS: "1000000" },
  },
  {
    name: "a million bad requests to a running server",
    file: "test/integration/fuzz-http.test.ts",
    env: { GPVE_FUZZ_REQUESTS: "1000000" },
  },
  {
    name: "every way to break the product that the tests must notice",
    file: "test/mutations/mutations.test.ts",
    env: { GPVE_MUTATIONS: "all" },
  },
  {
    name: "gpve killed at every step, and at twelve moments between: what happens to a VM",
    file: "test/integration/crash/vm-crash-life.test.ts",
    env: { GPVE_CRASH_KILLS: "12" },
  },
  {
    name: "gpve killed at every step, and at twelve moments between: what happens to its disks",
    file: "test/integration/crash/vm-crash-copies.test.ts",
    env: { GPVE_CRASH_KILLS: "12" },
  },
  {
    name: "the story of a Debian guest, whose clone boots too",
    file: "test/integration/guest-story.test.ts",
    isWhole: true,
    env: { GPVE_STORY_CLONE: "1" },
  },
  {
    name: "50 000 random guests, ours and PVE's",
    file: "test/conformance/qemu-dialects.test.ts",
    env: { GPVE_DIALECT_RUNS: "50000" },
  },
  {
    name: "100 000 sequences of operations and accidents on Talos clusters",
    file: "packages/talos/src/engine/model-check.test.ts",
    isUnit: true,
    env: { GPVE_MODEL_SEQUENCES: "100000" },
  },
  {
    name: "a Talos cluster of five real VMs on three nodes, killed eight times, grown, upgraded, destroyed",
    file: "test/integration/talos-apply.test.ts",
    isWhole: true,
    env: { GPVE_TALOS_VMS: "1" },
  },
  {
    name: "the story of a Talos cluster, with applies that are killed at eight other points",
    file: "test/integration/talos-story.test.ts",
    env: { GPVE_TALOS_STORY_KILLS: "8" },
  },
  {
    name: "a Talos cluster's life, stopped after every line of its journal",
    file: "packages/talos/src/engine/open-cluster.test.ts",
    isUnit: true,
    env: { GPVE_TALOS_KILLS: "all" },
  },
  {
    name: "10 000 operations of four users, memory bounded",
    file: "test/integration/busy-users.test.ts",
    env: { GPVE_SOAK_OPERATIONS: "10000" },
  },
  {
    name: "3 000 creates and clones by three tenants, on SQLite and on three etcds, all killed in between: quotas hold",
    file: "test/integration/quotas-killed.test.ts",
    env: { GPVE_QUOTA_REQUESTS: "1000" },
  },
  {
    name: "1 000 creates and clones at three servers on one store that loses a member: quotas hold",
    file: "test/integration/quotas-many-servers.test.ts",
    env: { GPVE_QUOTA_REQUESTS: "1000" },
  },
  {
    name: "twenty random sequences of faults on the nodes of a guest under HA",
    file: "test/integration/ha.test.ts",
    env: { GPVE_HA_SEQUENCES: "20" },
  },
  {
    name: "servers and agents restarted one by one, three times round, under load with twenty guests",
    file: "test/integration/rolling-upgrade.test.ts",
    env: { GPVE_UPGRADE_GUESTS: "20", GPVE_UPGRADE_ROUNDS: "3", GPVE_UPGRADE_HA: "1" },
  },
  {
    name: "ten live moves round three nodes, with shared disks and with each node's own",
    file: "test/integration/migration.test.ts",
    env: { GPVE_MOVES: "10" },
  },
  {
    name: "forty kills in mid-move: agents, servers and QEMUs of either end",
    file: "test/integration/migration-faults.test.ts",
    env: { GPVE_MOVE_KILLS: "40" },
  },
  {
    name: "a virtual cluster with workers on two nodes of three, whose pods reach each other: moves, another authority, the loss of a node",
    file: "test/integration/vcluster-nodes.test.ts",
    env: { GPVE_VC_NODES: "1" },
  },
  {
    name: "a virtual cluster of three replicas that gets another authority and loses nodes: it answers, a lost replica comes to be elsewhere",
    file: "test/integration/vcluster-replicas.test.ts",
    env: { GPVE_VC_REPLICAS: "1" },
  },
  {
    name: "upgrades of virtual clusters, also of those with an etcd of their own",
    file: "test/integration/vcluster-upgrade.test.ts",
    isWhole: true,
    env: { GPVE_VC_UPGRADES: "1" },
  },
  {
    name: "a virtual cluster of three replicas with workers on three nodes goes from one minor to the next, and back by itself",
    file: "test/integration/vcluster-replicas-upgrade.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "a virtual cluster with a standby that loses that, and then its node: it goes on with all that was answered",
    file: "test/integration/vcluster-standby.test.ts",
    env: { GPVE_VC_STANDBY: "1" },
  },
  {
    name: "a backup of a virtual cluster with an etcd of its own: beside it, and in its place",
    file: "test/integration/vcluster-stores.test.ts",
    env: { GPVE_VC_ETCD_RESTORE: "1" },
  },
  {
    name: "a virtual cluster whose workers are machines: pods, restarts, sleep, scale, loss",
    file: "test/integration/vcluster-l3.test.ts",
    env: { GPVE_VC_MACHINES: "1" },
  },
  {
    name: "upstream's conformance tests of the API, against a virtual cluster",
    file: "test/integration/vcluster-conformance.test.ts",
    env: { GPVE_VC_CONFORMANCE: "1" },
  },
  {
    name: "a storage that is no directory, inside a Debian guest: the whole conformance suite",
    file: "test/integration/storage-lvmthin.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "folders of NFS and SMB servers inside a Debian guest: disks of VMs of two nodes, and a server that falls silent",
    file: "test/integration/storage-servers.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "Packer makes a template from an installation disc",
    file: "test/integration/clients/packer.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "a running VM moves to another gpve",
    file: "test/integration/remote-migrate.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "a VM whose disks are copied to another node, which takes over, and the way back",
    file: "test/integration/replication.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "a virtual cluster that moves to another node, and back",
    file: "test/integration/vcluster-migrate.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "virtual clusters as they were drawn before there was a product, on real Kubernetes",
    file: "test/integration/drawn-clusters.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "backups of virtual clusters, and what becomes of them",
    file: "test/integration/vcluster-backup.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "pools of workers with labels and taints, addresses of load balancers, and the way out of a virtual cluster",
    file: "test/integration/vcluster-pools.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "virtual clusters with an etcd of their own, on somebody else's, and with an OpenID issuer",
    file: "test/integration/vcluster-stores.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "three nodes on SQLite too: killed, cut off and back",
    file: "test/integration/three-nodes.test.ts",
    env: { GPVE_NODES_STORES: "sqlite,etcd" },
  },
  {
    name: "a load balancer's machine, which leaves out who does not answer",
    file: "test/integration/lb-image.test.ts",
    isWhole: true,
    env: {},
  },
  {
    name: "the Talos driver's contract by PVE's commands on the node",
    file: "test/integration/talos-driver.test.ts",
    env: { GPVE_TALOS_QM: "1" },
  },
  {
    name: "a virtual cluster that sleeps: its CronJobs wake it, its certificates are renewed",
    file: "test/integration/vcluster-sleep.test.ts",
    env: { GPVE_VC_CALENDAR: "1" },
  },
  {
    name: "the tiny Linux from every kind of disk, with every kind of cloud-init drive",
    file: "test/integration/tiny-image.test.ts",
    env: { GPVE_TINY_BOOTS: "1" },
  },
];
