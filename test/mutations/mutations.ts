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
    name: "a tunnel to a node is opened without a decision",
    file: "packages/agent/src/application/agent.ts",
    find: "input, signal) {\n      requireDecision(decision, { node: deps.node, params });",
    replace: "input, signal) {",
    tests: ["packages/agent/src/application/agent.test.ts"],
  },
  {
    name: "a parameter is judged as one thing and used as another",
    file: "packages/agent/src/application/agent.ts",
    find: "      requireJudged(call.decision, params);\n",
    replace: "",
    tests: ["packages/agent/src/application/agent.test.ts"],
  },
  {
    name: "an archive that was changed after the request brings devices of the host along",
    file: "packages/agent/src/application/qemu/restore/restore-vm.ts",
    find: "if (args.limited === true)",
    replace: "if (false as boolean)",
    tests: ["packages/agent/src/presentation/pve/backup/restore-handlers.test.ts"],
  },
  {
    name: "etcd's answer about progress is believed at once",
    file: "packages/store/src/etcd/progress-question.ts",
    find: "if (open.revision !== undefined && open.quiet) {",
    replace: "open.revision ??= revision;\n    if (open.quiet) {",
    tests: [
      "packages/store/src/etcd/progress-question.test.ts",
      "packages/store/src/etcd/shared-watch.test.ts",
    ],
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
    file: "packages/server/src/application/backup-job/due-jobs.ts",
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
    name: "whoever asks for a name is told of tenants that he may not see",
    file: "packages/server/src/presentation/v1/named-object.ts",
    find: "return current !== undefined && isSeen ?",
    replace: "return current !== undefined || isSeen ?",
    tests: ["packages/server/src/presentation/v1/same-names.test.ts"],
  },
  {
    name: "a cluster by its key is anybody's, whatever tenant was judged",
    file: "packages/domain/src/vcluster/cluster-key.ts",
    find: "return found?.tenant === wanted.tenant && found.name === wanted.name;",
    replace: "return found?.name === wanted.name;",
    tests: [
      "packages/domain/src/vcluster/cluster-key.test.ts",
      "packages/server/src/presentation/v1/same-names.test.ts",
    ],
  },
  {
    name: "our own API takes a permission on all guests for one on each",
    file: "packages/server/src/application/v1/authorisation.ts",
    find: "        access.has(path, rule.privileges, rule.mode),",
    replace: '        access.has(path.replace(/^.vms.*/, "/vms"), rule.privileges, rule.mode),',
    tests: ["packages/server/src/presentation/permission-comparison-below.test.ts"],
  },
  {
    name: "a tenant's administrator manages users who may do more than he",
    file: "packages/domain/src/access/tenant-users.ts",
    find: "      if (own === undefined || (propagate && !own)) return { path, privilege };\n",
    replace: "      if (own === undefined && propagate && !own) return undefined;\n",
    tests: ["packages/server/src/presentation/tenant-admin.test.ts"],
  },
  {
    name: "a user of nobody is taken into a tenant by its administrator",
    file: "packages/server/src/application/v1/authorisation.ts",
    find: "  return desired === undefined ? [before] : [before, after];",
    replace: "  return desired === undefined ? [before] : [after];",
    tests: ["packages/server/src/presentation/tenant-admin.test.ts"],
  },
  {
    name: "a guest leaves the bounds of its tenant's quota",
    file: "packages/server/src/application/pool/pools.ts",
    find: '    if (access.has(path, ["Pool.Allocate"])) continue;',
    replace: "    if (path !== undefined) continue;",
    tests: ["packages/server/src/presentation/tenant-admin.test.ts"],
  },
  {
    name: "a node's lease passes on before its guests have ended",
    file: "packages/domain/src/ha/node-lease.ts",
    find: "unchangedMs >= leaseTimes.leaseMs",
    replace: "unchangedMs >= leaseTimes.renewMs",
    tests: [
      "packages/domain/src/ha/node-lease.test.ts",
      "packages/server/src/application/ha/manager.test.ts",
    ],
  },
  {
    name: "a node that cannot renew its lease keeps its guests",
    file: "packages/agent/src/application/ha/lease-keeper.ts",
    find: "if (this.#held && bootMs() >= this.#deadline) {",
    replace: "if (this.#held && bootMs() >= this.#deadline + 60_000) {",
    tests: ["packages/agent/src/application/ha/lease-keeper.test.ts"],
  },
  {
    name: "an agent that a server was faster than is told that it may not",
    file: "packages/store/src/guard/owned-records.ts",
    find: "    if (isOvertaken) continue;\n",
    replace: "",
    tests: ["packages/store/src/guard/owned-records.test.ts"],
  },
  {
    name: "an agent that says it was overtaken writes what it may not",
    file: "packages/store/src/guard/owned-records.ts",
    find: "const isOvertaken = !one.perhaps && wouldFail(",
    replace: "const isOvertaken = wouldFail(",
    tests: ["packages/store/src/guard/owned-records.test.ts"],
  },
  {
    name: "backups of deleted guests count for nobody",
    file: "packages/server/src/application/quota/quota-view.ts",
    find: "return [...left, ...clusters]",
    replace: "return [...clusters]",
    tests: ["packages/server/src/application/quota/quota-ledger.test.ts"],
  },
  {
    name: "RAM is sent in a way that the other node's QEMU does not have",
    file: "packages/domain/src/vm/migrate/ram-transfer.ts",
    find: "wanted.compressions.find((each) => there.compressions.includes(each))",
    replace: "wanted.compressions.find(() => true)",
    tests: ["packages/domain/src/vm/migrate/ram-transfer.test.ts"],
  },
  {
    name: "RAM of a guest that came by several connections is saved by several",
    file: "packages/agent/src/application/qemu/snapshot/ram-state.ts",
    find: '      { capability: "multifd", state: false },\n',
    replace: "",
    tests: ["packages/agent/src/presentation/pve/vm/vm-snapshot-handlers.test.ts"],
  },
  {
    name: "a store that its standby has joined answers without it",
    file: "packages/store/src/standby/lead-stream.ts",
    find: "    if (mustWait && !this.#isWithinBound()) return;\n",
    replace: "",
    tests: ["packages/store/src/standby/standby.test.ts"],
  },
  {
    name: "a store that its standby has joined serves after a restart without having asked it",
    file: "packages/store/src/standby/lead-stream.ts",
    find: "    return !this.#isJoined || this.#isStreaming;\n",
    replace: "    return true;\n",
    tests: ["packages/store/src/standby/standby.test.ts"],
  },
  {
    name: "a lost cluster goes on from a standby that has not everything",
    file: "packages/domain/src/vcluster/standby/standby-plan.ts",
    find: "standby?.inSync !== true",
    replace: "standby === undefined",
    tests: ["packages/domain/src/vcluster/standby/standby-plan.test.ts"],
  },
];
