// Ways to break the product, each in one place, and the tests that must notice. A text that is gone fails: then the
// list is brought up to date, so that it never checks nothing.

export interface Mutation {
  readonly name: string;
  readonly file: string;
  /** There exactly once. */
  readonly find: string;
  readonly replace: string;
  /** What must fail. */
  readonly tests: readonly string[];
  readonly config?: "unit" | "integration";
  /** Run in every pass, not only in the long one. */
  readonly always?: boolean;
}

const RUN = "packages/domain/src/guest/snapshot/snapshot-run.ts";
const SNAPSHOT = "packages/domain/src/guest/snapshot/snapshot.ts";
const snapshots = {
  tests: ["test/conformance/qemu-snapshot-own.test.ts"],
  config: "integration",
} as const;

export const mutations: readonly Mutation[] = [
  {
    name: "a snapshot is taken of a VM that another task holds",
    file: SNAPSHOT,
    find: "  checkLock(config);\n  if (snapshotOf(config, name) !== undefined)",
    replace: "  if (snapshotOf(config, name) !== undefined)",
    always: true,
    ...snapshots,
  },
  {
    name: "a snapshot that failed is not taken back",
    file: RUN,
    find: "    await attempt(host, () => deleteSnapshot(host, name, { force: true, created: done }));\n",
    replace: "",
    always: true,
    ...snapshots,
  },
  {
    name: "a snapshot that failed is said to be done",
    file: RUN,
    find: "created: done }));\n    throw error;",
    replace: "created: done }));\n    return;",
    always: true,
    ...snapshots,
  },
  {
    name: "snapshots of volumes stay when theirs is deleted",
    file: RUN,
    find: "const gone = await step(() => host.deleteVolumeSnapshot(volume, name));",
    replace: "const gone = true;",
    always: true,
    ...snapshots,
  },
  {
    name: "a deletion goes on where a volume fails",
    file: RUN,
    find: "    if (force) return attempt(host, work);",
    replace: "    if (force || created === undefined) return attempt(host, work);",
    ...snapshots,
  },
  {
    name: "a rollback leaves the volumes as they are",
    file: RUN,
    find: "await host.rollbackVolume(volume, name);",
    replace: "void volume;",
    ...snapshots,
  },
  {
    name: "a rollback does not ask whether the volumes can",
    file: RUN,
    find: "await host.checkVolumeRollback(volume, name);",
    replace: "void volume;",
    ...snapshots,
  },
  {
    name: "a rollback runs under a guest that did not stop",
    file: RUN,
    find: "if (await host.isRunning()) throw conflict",
    replace: "if ((await host.isRunning()) && host.vmid < 0) throw conflict",
    ...snapshots,
  },
  {
    name: "a snapshot is complete before anybody says so",
    file: SNAPSHOT,
    find: 'if (snapshot["snapstate"] !== "prepare")',
    replace: 'if (snapshot["snapstate"] === "never")',
    ...snapshots,
  },
  {
    name: "the permission of a method is not asked for",
    file: "packages/domain/src/access/decision.ts",
    find: "  checkPermission(permission, params, subject);\n",
    replace: "  void permission;\n",
    tests: ["packages/domain/src/access/decision.test.ts"],
  },
  {
    name: "a call leaves no audit record",
    file: "packages/server/src/presentation/http/pve/pve-api.ts",
    find: "await deps.audit(auditOf(",
    replace: "void (auditOf(",
    tests: ["packages/server/src/presentation/http/pve"],
  },
  {
    name: "an operation's steps are not written to the journal",
    file: "packages/kit/src/operation/record-writer.ts",
    find: "        await this.#deps.session.write(record);\n        operation.writtenData",
    replace: "        if (isEnd) await this.#deps.session.write(record);\n        operation.writtenData",
    tests: ["packages/kit/src/operation"],
  },
  {
    name: "a backup job forgets that it ran",
    file: "packages/server/src/application/backup-job/job-scheduler.ts",
    find: "run?.last ?? 0",
    replace: "0",
    tests: ["packages/server/src/application/backup-job"],
  },
  {
    name: "taps take the MTU of their card",
    file: "packages/agent/src/application/qemu/start/start-plan.ts",
    find: "mtu: bridge.mtu };\n}",
    replace: "mtu: net.mtu ?? bridge.mtu };\n}",
    tests: ["packages/agent/src/presentation/pve/vm/vm-start-hardware.test.ts"],
  },
  {
    name: "a card whose MAC filter cannot be changed loses the one it has",
    file: "packages/agent/src/infrastructure/net/mac-filter.ts",
    find: "        else this.#cards.set(card.tap, before);\n",
    replace: "        else this.#cards.delete(card.tap);\n",
    tests: ["packages/agent/src/infrastructure/net/mac-filter.test.ts"],
  },
  {
    name: "image tools take as many processes as they like",
    file: "packages/agent/src/infrastructure/cgroup/tool-cgroups.ts",
    find: '    this.#write("pids", name, "pids.max", String(this.#bounds.tasks));\n',
    replace: "",
    tests: ["packages/agent/src/infrastructure/image-tools/confined-tools.test.ts"],
  },
  {
    name: "a guest names the host's processes",
    file: "packages/agent/src/infrastructure/guest-process/start-spec.ts",
    find: "          ownPids: true,\n",
    replace: "",
    tests: ["test/integration/guests/guests-apart.test.ts"],
    config: "integration",
  },
  {
    name: "the lease of a node passes on before its watchdog resets it",
    file: "packages/domain/src/ha/model.ts",
    find: "  lockS: 120,",
    replace: "  lockS: 30,",
    tests: ["packages/domain/src/ha/simulator/simulation.test.ts"],
  },
  {
    name: "guests that ran without lease count as fenced",
    file: "packages/domain/src/ha/node-states.ts",
    find: "    if (this.#env.localStatus(node)?.guarded === false) {",
    replace: "    if (this.#env.localStatus(node) === undefined) {",
    tests: ["packages/domain/src/ha/simulator/simulation.test.ts"],
  },
  {
    name: "one address may fill the room for all strangers' bodies",
    file: "packages/server/src/presentation/http/body-budget.ts",
    find: "      if (holder.bytes + bytes > part.share.each) return false;\n",
    replace: "",
    tests: ["packages/server/src/presentation/http/body-budget.test.ts"],
    always: true,
  },
  {
    name: "every address of an IPv6 network is a peer of its own",
    file: "packages/kit/src/net/client-network.ts",
    find: "if (!isIPv6(bare)) return plain;",
    replace: "if (plain !== bare || !bare.includes(' ')) return plain;",
    tests: ["packages/kit/src/net/strangers.test.ts"],
  },
  {
    name: "a handshake may last for ever",
    file: "packages/kit/src/net/strangers.ts",
    find: "    this.#inHandshake.add(stranger);\n",
    replace: "",
    tests: ["packages/kit/src/net/strangers.test.ts"],
    always: true,
  },
  {
    name: "a console is asked for by the proxy in between",
    file: "packages/server/src/presentation/http/console/console-upgrade.ts",
    find: "    csrfToken: undefined,\n    clientAddress: clientAddressOf(req, deps.isProxy),",
    replace: '    csrfToken: undefined,\n    clientAddress: req.socket.remoteAddress ?? "",',
    tests: ["packages/server/src/presentation/http/console/console-upgrade.test.ts"],
  },
  {
    name: "a removed node goes on as long as records change",
    file: "packages/server/src/application/node/hang-up.ts",
    find: "    if (deadlines.has(node)) return;\n",
    replace: "    deadlines.get(node)?.();\n",
    tests: ["packages/server/src/application/node/hang-up.test.ts"],
  },
  {
    name: "what somebody removed from a bounded audit log is not missed",
    file: "packages/server/src/infrastructure/audit/verify-audit.ts",
    find: "      if (record.seq > last.seq + 1) {",
    replace: "      if (record.seq > last.seq + 1 && from === undefined) {",
    tests: ["packages/server/src/infrastructure/audit/prune-audit.test.ts"],
  },
  {
    name: "our own API takes a permission on all guests for one on each",
    file: "packages/server/src/application/v1/authorisation.ts",
    find: "        access.has(path, rule.privileges, rule.mode),",
    replace: '        access.has(path.replace(/^.vms.*/, "/vms"), rule.privileges, rule.mode),',
    tests: ["packages/server/src/presentation/permission-comparison-below.test.ts"],
  },
];
