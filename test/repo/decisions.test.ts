// Who may decide what a node is asked: the authoriser for requests, and a few places for work of the system itself.
import { expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

const product = sources().filter((path) => path.startsWith("packages/") && !isTest(path));
const naming = (pattern: RegExp): string[] => product.filter((path) => pattern.test(read(path)));

test("decisions are made by the authoriser, and read from the wire by the agent's service", () => {
  expect(naming(/\bimport \{[^}]*\bdecide\b[^}]*\} from "[^"]*access\/decision\.ts"/)).toEqual([
    "packages/server/src/application/access/access.ts",
  ]);
  expect(naming(/\bdecisionFromServer\(/)).toEqual([
    "packages/agent/src/presentation/grpc/agent-service.ts",
    "packages/domain/src/access/decision.ts",
  ]);
  expect(naming(/\bdecideForSystem\(/)).toEqual([
    "packages/domain/src/access/decision.ts",
    "packages/server/src/application/node/call-agent.ts",
  ]);
});

test("presentation only translates: what else a request needs is asked for in application", () => {
  const asking = naming(/\baccess\.require\(|\bisRoot\(|\brequireAllocate\(/);
  expect(asking.filter((path) => path.includes("/presentation/"))).toEqual([]);
  expect(asking).toContain("packages/agent/src/application/guest/backup/request-backup.ts");
});

test("errors of parameters and refusals are made in one place", () => {
  const inside = (pattern: RegExp) =>
    naming(pattern).filter((path) => /^packages\/(agent|domain|server)\//.test(path));
  const here = ["packages/domain/src/request/failures.ts"];
  expect(inside(/new AppError\([^;]{0,60}"Parameter verification failed\./)).toEqual(here);
  expect(inside(/function (refused?|badParameters?|conflict|missing|alreadyThere)\(message: string/)).toEqual(
    here,
  );
});

test("the system works by itself in these places alone", () => {
  expect(naming(/\bwork: "|new WorkOnNodes\(deps, "/)).toEqual([
    "packages/server/src/application/backup-job/due-jobs.ts",
    "packages/server/src/application/replication/replication-work.ts",
    "packages/server/src/application/scheduler/rebalancer.ts",
    "packages/server/src/application/v1/apply-objects.ts",
    "packages/server/src/application/vcluster/cluster-moves.ts",
    "packages/server/src/application/vcluster/cluster-rotations.ts",
    "packages/server/src/application/vcluster/cluster-upgrades.ts",
    "packages/server/src/application/vcluster/keep-rotations.ts",
    "packages/server/src/application/vcluster/replicas/keep-replicas.ts",
    "packages/server/src/application/vcluster/scale/settle-scale.ts",
    "packages/server/src/application/vcluster/standby/keep-standbys.ts",
    "packages/server/src/application/vcluster/standby/stand-down.ts",
    "packages/server/src/application/vcluster/volumes/keep-volume-rooms.ts",
    "packages/server/src/application/vcluster/worker-moves.ts",
    "packages/server/src/presentation/listener/spice-proxy.ts",
  ]);
});

test("servers reach agents through one class", () => {
  const allowed = new Set([
    "packages/server/src/application/node/call-agent.ts",
    // Carry a call on that was decided before.
    "packages/server/src/application/node/server-tasks.ts",
    "packages/server/src/application/node/guest-permits.ts",
    "packages/server/src/application/node/guest-moves.ts",
    "packages/server/src/infrastructure/agent-client/local-agent.ts",
    "packages/server/src/infrastructure/agent-client/grpc-agent.ts",
  ]);
  const reach = /\bagents\b[^\n]*\.connection\(|[cC]onnection\.(call|tunnel)\(|#?agent\.(call|tunnel)\(/;
  const server = product.filter((path) => path.startsWith("packages/server/"));
  expect(server.filter((path) => reach.test(read(path)) && !allowed.has(path))).toEqual([]);
});
