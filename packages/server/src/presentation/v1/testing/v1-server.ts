// A real /api/v1 on a loopback port, over a real SQLite store. Who asks is said by the Authorization header.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { actorOf, type RequestLogger } from "@gpve/domain/request/context.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import type { Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { aclDef, aclId, groupsDef, usersDef } from "@gpve/domain/access/collections.ts";
import type { KindAdapter } from "../../../application/v1/adapter.ts";
import { objectsFromHistory } from "../../../application/v1/history.ts";
import type { VmActionDeps } from "../../../application/v1/adapters/virtual-machine.ts";
import { eventsOfCluster } from "../../../application/vcluster/cluster-events.ts";
import { cacheReader } from "../../../application/v1/adapter.ts";
import { clusterKeyOf } from "../../../application/vcluster/cluster-names.ts";
import type { VirtualClusters } from "../../../application/vcluster/virtual-clusters.ts";
import { createKindAdapters } from "../../../application/v1/kind-adapters.ts";
import type { AuditedCall } from "../../../application/audit/record-audit.ts";
import { createV1Api } from "../create-v1-api.ts";
import type { V1Deps } from "../ports.ts";
import { noExplanations, noPlaces, noStories, quietKinds } from "../../../testing/quiet-kinds.ts";

export const silent: RequestLogger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Whatever came back; tests look at parts of it. */
export interface AnswerBody {
  readonly metadata: Readonly<Record<"name" | "uid" | "resourceVersion" | "continue", string>>;
  readonly spec: { readonly subjects: readonly unknown[] };
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
  readonly kinds: readonly { readonly kind: string }[];
  readonly errors: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

export interface V1TestServer {
  readonly url: string;
  readonly store: Store;
  readonly records: Records;
  readonly audits: AuditedCall[];
  readonly adapters: readonly KindAdapter[];
  readonly views: Map<string, NodeView>;
  /** Users whose credentials no longer hold. */
  readonly revoked: Set<string>;
  readonly directory: AccessDirectory;
  ask(
    method: string,
    path: string,
    options?: { as?: string; body?: unknown; raw?: string | Uint8Array; headers?: Record<string, string> },
  ): Promise<{ status: number; body: AnswerBody; headers: Headers }>;
  addUser(userid: string, options?: { groups?: string[]; grants?: [string, string][] }): Promise<void>;
  close(): Promise<void>;
}

/** Virtual clusters that are gone, and have left backups. */
const LEFT = { name: "left", tenants: ["shop", "lab"] };

export async function startV1(
  options: {
    clock?: Clock;
    store?: Store;
    deps?: Partial<V1Deps> | ((records: Records) => Partial<V1Deps>);
    /** What becomes of changes of VMs. */
    vmActions?: (records: Records) => VmActionDeps;
    /** What becomes of changes of virtual clusters. */
    vclusters?: (records: Records, board: NodeBoard) => VirtualClusters;
  } = {},
): Promise<V1TestServer> {
  const clock = options.clock ?? systemClock;
  const store = options.store ?? openSqliteStore({ path: ":memory:" });
  const records = await openRecords(store, { prefix: "/gpve/", log: silent });
  const directory = new AccessDirectory({ records, clock });
  const views = new Map<string, NodeView>();
  let generation = 0;
  const board: NodeBoard = {
    list: () => [...views.values()],
    get: (node) => views.get(node),
    generation: () => ++generation,
  };
  const audits: AuditedCall[] = [];
  const revoked = new Set<string>();
  let requests = 0;
  const vmActions = options.vmActions?.(records);
  const vclusters = options.vclusters?.(records, board);
  const adapters = createKindAdapters({
    board,
    ...quietKinds,
    ownNode: () => "own",
    ...given({ vmActions, vclusters }),
  });
  const extra = typeof options.deps === "function" ? options.deps(records) : (options.deps ?? {});
  const stop = new AbortController();
  const api = createV1Api({
    authenticate: ({ authorization }) => {
      if (authorization === undefined) return Promise.resolve({ actor: undefined, via: "none" });
      const authid = authorization.replace(/^Test /, "");
      if (authid === "wrong" || revoked.has(authid)) {
        return Promise.reject(new AppError("auth.failed", "Authentication failed!"));
      }
      return Promise.resolve({ actor: actorOf(authid), via: "token" });
    },
    accessOf: (actor) => directory.view(actor),
    audit: (event) => {
      if (event !== undefined) audits.push(event);
      return Promise.resolve();
    },
    observe: () => undefined,
    trace: (_name, _attributes, run) => run(undefined),
    log: silent,
    newRequestId: () => `req-${++requests}`,
    delay: () => Promise.resolve(),
    version: "1.2.3",
    records,
    clock,
    adapters,
    history: objectsFromHistory(store),
    scheduler: { explain: noExplanations, clusters: noStories, guests: noPlaces },
    ageSeconds: () => undefined,
    submitApply: () => Promise.reject(new AppError("feature.unsupported", "no engine in this test")),
    auditLog: {
      list: async function* () {},
      verify: () =>
        Promise.resolve({ ok: true, entries: 0, head: { seq: 0, hash: "" }, issues: [], recoveries: [] }),
    },
    taskLog: () => Promise.resolve({ lines: [{ n: 1, t: "hello" }], total: 1 }),
    cancelTask: () => Promise.resolve(),
    nodeImages: (node, storage = "local") => Promise.resolve([{ name: `of ${node} in ${storage}` }]),
    makeImage: (node, verb, { name, storage = "local" }) =>
      Promise.resolve(`UPID:${node}:${verb}:${name}:${storage}`),
    failover: {
      run: () => {
        const copyOf = "2026-01-01T00:00:00.000Z";
        return Promise.resolve({
          vmid: 100,
          from: "n1",
          to: "n2",
          copyOf,
          ageSeconds: 7,
          age: "7 s",
          left: [],
        });
      },
    },
    ha: {
      evidence: (about) => [{ about: about ?? "all" }],
      maintenance: () => Promise.resolve(),
    },
    nodeComponents: (node) => Promise.resolve([{ name: `of ${node}` }]),
    component: (node, { verb, component, version = "newest" }) =>
      Promise.resolve(`UPID:${node}:${verb}:${component}:${version}`),
    podMapping: {
      of: ({ vcluster, pod, namespace }) =>
        Promise.resolve({ vcluster, tenant: "default", namespace, pod, vnode: "worker-1", node: "n1" }),
      on: () => Promise.resolve([]),
    },
    vclusters: {
      kubeconfig: (name, hours) =>
        Promise.resolve({ id: "1", kubeconfig: `${name} for ${hours} h`, expiresAt: "2030-01-01T00:00:00Z" }),
      kubeconfigs: (name) => Promise.resolve([{ id: "1", user: name, expiresAt: "2030-01-01T00:00:00Z" }]),
      revoke: () => Promise.resolve(),
      work: (name, verb) => Promise.resolve(`UPID:n1:${verb}:${name}`),
      scale: (name, { count }) => Promise.resolve(`UPID:n1:scale:${name}:${count}`),
      sleep: (name, mode) => Promise.resolve(`UPID:n1:sleep:${name}:${mode}`),
      logs: (name) => Promise.resolve({ lines: [`of ${name}`] }),
    },
    vclusterSaves: {
      backUp: (name, { storage = "local" }) => Promise.resolve(`UPID:n1:vcbackup:${name}:${storage}`),
      list: ({ name, tenant }) =>
        name !== LEFT.name && clusterKeyOf(cacheReader(records), { name, tenant }) === undefined
          ? Promise.reject(new AppError("object.not_found", `there is no VirtualCluster '${name}'`))
          : Promise.resolve([{ archive: `local:backup/${tenant}/${name}`, sizeBytes: 1, time: 1 }]),
      away: () => [],
      tenantsOf: (name) => (name === LEFT.name ? LEFT.tenants : []),
      restore: ({ name, tenant = "none" }) => Promise.resolve(`UPID:n1:vcrestore:${tenant}:${name}`),
      upgrade: (name, { version }) => Promise.resolve(`UPID:n1:vcupgrade:${name}:${version}`),
      rotateCa: (name, { dropOld = false }) =>
        Promise.resolve(`UPID:n1:${dropOld ? "vcdropca" : "vcrotateca"}:${name}`),
    },
    vclusterMoves: { begin: (name, target) => Promise.resolve(`UPID:n1:vcmigrate:${name}:${target}`) },
    vclusterWorkerMoves: {
      begin: (name, { worker, target }) =>
        Promise.resolve(`UPID:n1:vcmoveworker:${name}:${worker}:${target}`),
    },
    vclusterEvents: (name) => eventsOfCluster(records, name),
    backupVm: ({ node, vmid }, { storage = "local" }) => Promise.resolve(`UPID:${node}:${vmid}:${storage}`),
    failedVms: {
      retry: ({ node, vmid }) => Promise.resolve(`UPID:${node}:${vmid}:retry`),
      resetState: ({ node, vmid }) => Promise.resolve(`UPID:${node}:${vmid}:reset-state`),
    },
    // JSON, so that tests that read every answer can read this one.
    vmScreenshot: (node, vmid) =>
      Promise.resolve(Buffer.from(`{"png":"${encodeURIComponent(`${node}/${vmid}`)}"}`)),
    vmLog: (node, vmid) => Promise.resolve({ lines: [`of ${node}/${vmid}`] }),
    probeNode: (node) => Promise.resolve(`UPID:${node}:probe`),
    storeMembers: { list: () => Promise.resolve([]), remove: () => Promise.resolve() },
    invite: ({ ttlMs }) => Promise.resolve({ token: "gpve-join.secret", expiresAt: clock.now() + ttlMs }),
    servers: () => Promise.resolve(["https://192.0.2.11:8006"]),
    caFingerprint: () => "AA:BB",
    defaults: () => ({ storage: { vmDisk: "local", iso: "local", backup: "local" } }),
    pve: { methods: [], implemented: () => false },
    readiness: () => Promise.resolve([{ name: "store", ok: true }]),
    shutdown: stop.signal,
    ...given({ vclusters }),
    ...extra,
  });
  const server = createServer((req, res) => {
    api(req, res, { clientAddress: "127.0.0.1" }).catch((err: unknown) => res.destroy(err as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    store,
    records,
    audits,
    adapters,
    views,
    revoked,
    directory,
    ask: async (method, path, { as = "root@pam", body, raw, headers } = {}) => {
      const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          ...(as === "" ? {} : { authorization: `Test ${as}` }),
          ...(payload === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(payload === undefined ? {} : { body: payload as string }),
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: (text === "" ? {} : JSON.parse(text)) as AnswerBody,
      };
    },
    addUser: async (userid, { groups = [], grants = [] } = {}) => {
      await records.transact((tx) => {
        for (const groupid of groups) tx.put(groupsDef, groupid, { groupid });
        tx.put(usersDef, userid, { userid, enable: true, expire: 0, groups });
        for (const [path, roleid] of grants) {
          const entry = { path, type: "user", ugid: userid, roleid, propagate: true } as const;
          tx.put(aclDef, aclId(entry), entry);
        }
      });
    },
    close: async () => {
      stop.abort(new Error("the test ends"));
      api.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await records.close();
      if (options.store === undefined) await store.close();
    },
  };
}
