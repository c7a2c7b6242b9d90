// Wires one server. The only file here that constructs adapters.
//
//   openServer: store -> records -> secrets, PKI, access, board, operations    (nothing listens yet)
//   start:      the agent of this process, if there is one, then the listener
import { randomBytes, randomUUID } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import { operationTasks } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import { span, tracingIsOn } from "@gpve/kit/telemetry/span.ts";
import { tracedExec } from "@gpve/kit/telemetry/traced-exec.ts";
import { traceparent } from "@gpve/kit/telemetry/traceparent.ts";
import type { Metrics } from "@gpve/kit/telemetry/metrics.ts";
import type { Store } from "@gpve/store/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { createAccess, type Access } from "./application/access/access.ts";
import {
  bootstrapAccess,
  type BootstrapOptions,
  type BootstrapResult,
} from "./application/access/bootstrap.ts";
import { composeAgentFace, composeDirectory } from "./compose-agent-face.ts";
import { composeBackupJobs } from "./compose-backup-jobs.ts";
import { composeConsoles } from "./compose-consoles.ts";
import { composeMappings } from "./compose-mappings.ts";
import { composeOperations } from "./compose-operations.ts";
import { composeQuotas } from "./compose-quota.ts";
import { composePveHandlers } from "./compose-pve-handlers.ts";
import { composeEvents, composeKinds, composePhases, composeV1 } from "./compose-v1.ts";
import { freshReads, ownedStore } from "./application/fresh-reads.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { publishedServerTasks, withServerTasks } from "./application/node/server-tasks.ts";
import { recordAudit } from "./application/audit/record-audit.ts";
import { MemoryNodeBoard } from "./application/node/board.ts";
import { nodeRecords } from "./application/node/collections.ts";
import type { NodeDirectory } from "./application/node/directory.ts";
import { Membership } from "./application/node/membership.ts";
import { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import { keepGuestPools } from "./application/pool/guest-pools.ts";
import { openFileAuditLog, type FileAuditLog } from "./infrastructure/audit/file-audit-log.ts";
import { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import { createPamAccounts } from "./infrastructure/realm-pam/pam-accounts.ts";
import { loadMasterKey } from "./infrastructure/secrets/master-key.ts";
import { createPasswordHasher } from "./infrastructure/secrets/password-hasher.ts";
import { createSealer } from "./infrastructure/secrets/sealer.ts";
import { tokenSecrets } from "./infrastructure/secrets/token-secrets.ts";
import { NodeCalls } from "./application/node/call-agent.ts";
import { AgentUploads } from "./application/node/agent-uploads.ts";
import { TicketKeys } from "./infrastructure/tickets/ticket-keys.ts";
import { openTickets } from "./infrastructure/tickets/tickets.ts";
import { createEntry } from "./presentation/http/entry.ts";
import type { Credentials } from "./application/access/authenticator.ts";
import { createPveApi } from "./presentation/http/pve/pve-api.ts";
import { ReadyReads } from "./presentation/http/pve/ready-reads.ts";
import { listen, type Listener } from "./presentation/listener/listener.ts";
import { trustedProxies } from "./presentation/listener/trusted-proxies.ts";
import { listenForSpice, type SpiceProxy } from "./presentation/listener/spice-proxy.ts";
import { metricRoute } from "./presentation/metrics/metric-route.ts";
import { nodeMetrics, vmStates } from "./presentation/metrics/node-metrics.ts";

export interface ServerSettings {
  readonly data: DataDir;
  readonly store: Store;
  readonly host: string;
  readonly port: number;
  /** Where SPICE viewers come in; undefined = nowhere. */
  readonly spicePort?: number;
  /** Name of the machine this server runs on; the node part of its own tasks. */
  readonly nodeName: string;
  /** undefined = one node, no cluster. */
  readonly clusterName: string | undefined;
  /** Proxies whose X-Forwarded-For is honoured. */
  readonly trustedProxies: readonly string[];
  /** Names and addresses for the certificate. */
  readonly names: readonly string[];
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly clock?: Clock;
  /** Secrets for a first start, already written down by the caller. */
  readonly bootstrap?: BootstrapOptions;
  /** Several servers may share the store: ownership is by lease. */
  readonly shared: boolean;
}

/** What a process needs to know of the server it runs, before anything listens. */
export interface OpenServer {
  readonly records: Records;
  readonly access: Access;
  readonly storages: StorageDefinitions;
  readonly pki: ClusterPki;
  readonly membership: Membership;
  readonly board: MemoryNodeBoard;
  readonly engine: OperationEngine;
  readonly tasks: TaskDirectory;
  readonly taskLogs: TaskLogFiles;
  readonly audit: FileAuditLog;
  readonly bootstrapped: BootstrapResult;
  readonly log: Logger;
  start(local: LocalParts): Promise<Listener>;
  close(): Promise<void>;
}

export interface LocalParts {
  /** The agent of this very process. */
  readonly agent?: AgentConnection;
  /** Answers in a node's name for tasks of servers, which its agent does not know. */
  readonly serverTasks?: (node: string) => AgentConnection;
}

const ROTATE_CHECK_MS = 6 * 3600_000;

export async function openServer(settings: ServerSettings): Promise<OpenServer> {
  const { data, store, log, metrics, nodeName } = settings;
  const isProxy = trustedProxies(settings.trustedProxies);
  const clock = settings.clock ?? systemClock;
  const stop = new AbortController();
  const runExec = tracedExec(exec);
  const records = await openRecords(store, { prefix: "/gpve/", log });

  const masterKey = await loadMasterKey(data.file("secrets", "master.key"));
  const sealer = createSealer(masterKey);
  const hasher = createPasswordHasher();
  const bootstrapped = await bootstrapAccess(
    { records, hasher, sealer, secrets: tokenSecrets },
    settings.bootstrap ?? {},
  );
  const tickets = await openTickets({ keys: new TicketKeys({ records, sealer, clock }), clock });
  const access = createAccess({
    records,
    clock,
    hasher,
    sealer,
    secrets: tokenSecrets,
    tickets,
    host: createPamAccounts({ exec: runExec }),
    clusterName: () => settings.clusterName,
  });
  const pki = await ClusterPki.open({
    records,
    sealer,
    clock,
    dir: data.file("pki"),
    clusterName: settings.clusterName ?? nodeName,
    names: settings.names,
  });
  const membership = new Membership({ records, clock, issuer: pki, random: randomBytes });
  const storages = new StorageDefinitions(records, data.path);
  await storages.ensureDefault(data.file("storage", "local"));
  const board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
  const audit = await openFileAuditLog({ dir: data.file("audit"), key: masterKey, clock, log });

  const taskLogs = new TaskLogFiles({ directory: data.file("tasks"), logger: log });
  const owner = `${nodeName}/${data.instanceId}`;
  const operations = composeOperations({
    store,
    records,
    clock,
    log,
    metrics,
    taskLogs,
    nodeName,
    owner,
    shared: settings.shared,
  });
  const { engine } = operations;

  const phases = composePhases({ records, clock, board });
  const events = composeEvents({ records, clock, board, phases, log });
  const shared = {
    authenticate: (credentials: Credentials) => access.authenticator.authenticate(credentials),
    accessOf: access.accessOf,
    audit: events.ofAudit(
      recordAudit({
        log: audit,
        clock,
        groupsOf: (user) => access.directory.model().users.get(user)?.groups ?? [],
      }),
    ),
    observe: (route: string, method: string, status: number, seconds: number) =>
      metrics.observeRequest(method, route, status, seconds),
    trace: <T>(
      name: string,
      attributes: Readonly<Record<string, string>>,
      run: (parent: string | undefined) => Promise<T>,
    ) => span(name, attributes, () => run(traceparent()), "server"),
    log,
    newRequestId: randomUUID,
    delay: (ms: number) => clock.sleep(ms),
  };
  let agents: AgentDirectory | undefined;
  const quotas = composeQuotas({ records, board, clock, log, owner });
  const { gate } = quotas;
  const calls = new NodeCalls({ agents: () => agents, localNode: nodeName, decide: access.decide, gate });
  const kinds = composeKinds({
    phases,
    records,
    clock,
    engine,
    board,
    membership,
    shared,
    calls,
    quotas: quotas.view,
  });
  kinds.register(engine);

  const ready = settings.shared ? undefined : new ReadyReads();
  const reads = settings.shared ? freshReads({ records, clock, log }) : ownedStore;
  const backupJobs = composeBackupJobs({
    records,
    store,
    clock,
    access,
    board,
    log,
    candidate: owner,
  });
  let scheduling = Promise.resolve();
  let listener: Listener | undefined;
  let spice: SpiceProxy | undefined;
  let directory: NodeDirectory | undefined;
  let rotation = (): void => undefined;
  let stopHangingUp = (): void => undefined;
  const stopBoard = board.start();
  const stopPools = keepGuestPools({ records, log });

  return {
    records,
    access,
    storages,
    pki,
    membership,
    board,
    engine,
    tasks: operationTasks(engine, clock),
    taskLogs,
    audit,
    bootstrapped,
    log,
    async start(local) {
      directory = composeDirectory({ records, pki, membership, clock }, local.agent);
      await operations.start(kinds.register);
      agents = withServerTasks(directory, {
        localNode: nodeName,
        own: operationTasks(engine, clock),
        published: publishedServerTasks(records.collection(taskRecords)),
        clock,
        serve: local.serverTasks,
      });
      const reach = { calls, localNode: nodeName, tickets, certificate: () => pki.serverTls().certPem };
      const consoles = composeConsoles({
        ...shared,
        ...reach,
        isProxy,
        decide: access.decide,
        caPem: () => pki.caPem,
        spiceProxy: () =>
          spice === undefined ? undefined : { host: spiceHost(settings, nodeName), port: spice.address.port },
      });
      const pve = createPveApi({
        ...shared,
        observe: (route, method, status, seconds) =>
          metrics.observeRequest(method, metricRoute(route), status, seconds),
        decide: access.decide,
        handlers: {
          ...composePveHandlers({
            records,
            access,
            board,
            membership,
            quotas: quotas.ledger,
            storages,
            reads,
            nodeName,
            clusterName: settings.clusterName,
            ...reach,
            caPem: () => pki.caPem,
          }),
          ...backupJobs.handlers,
          ...consoles.handlers,
          ...composeMappings({ records, ...reach, dataDir: data.path, storages }),
        },
        calls,
        localNode: nodeName,
        knowsNode: (node) => node === nodeName || board.get(node) !== undefined,
        uploads: new AgentUploads({ calls, newRequestId: shared.newRequestId }),
        // Only this process writes to an embedded store, and a write is in memory before its answer goes out.
        fresh: reads.fresh,
        ready: () => (ready === undefined || tracingIsOn() ? undefined : ready),
      });
      const v1 = composeV1({
        shared,
        phases,
        records,
        store,
        clock,
        engine,
        board,
        membership,
        pki,
        audit,
        calls,
        adapters: kinds.adapters,
        shutdown: stop.signal,
      });
      const tls = pki.serverTls();
      const agentFace = composeAgentFace({
        membership,
        board,
        pki,
        store,
        records,
        clock,
        log,
        serverVersion: PRODUCT_VERSION,
        clusterName: settings.clusterName ?? nodeName,
      });
      listener = await listen({
        host: settings.host,
        port: settings.port,
        certificate: { cert: tls.certPem, key: tls.keyPem },
        isProxy,
        onRequest: createEntry({ pve, v1, log, isProxy }),
        onUpgrade: consoles.onUpgrade,
        ...agentFace.options,
      });
      if (settings.spicePort !== undefined) {
        spice = await listenForSpice({
          host: settings.host,
          port: settings.spicePort,
          certificate: () => {
            const { certPem: cert, keyPem: key } = pki.serverTls();
            return { cert, key };
          },
          calls,
          verify: (ticket) => tickets.verifySpice(ticket),
          newRequestId: shared.newRequestId,
          log,
        });
      }
      const open = listener;
      stopHangingUp = agentFace.watch(open);
      pki.onRotate(({ certPem, keyPem }) => {
        open.setCertificate({ cert: certPem, key: keyPem });
        directory?.reset();
      });
      rotation = clock.after(ROTATE_CHECK_MS, keepRotating);
      metrics.addCollector(() => nodeMetrics(board));
      metrics.addCollector(() => vmStates(board, records.collection(guestCollection).list()));
      scheduling = backupJobs.startScheduler(calls, stop.signal);
      return listener;
    },
    async close() {
      rotation();
      stopHangingUp();
      stop.abort(new AppError("operation.cancelled", "the server stops"));
      await spice?.close();
      await listener?.close();
      await scheduling;
      directory?.close();
      stopPools();
      quotas.stop();
      stopBoard();
      await events.close();
      await operations.close();
      await audit.close();
      await records.close();
    },
  };

  function keepRotating(): void {
    background(log, "certificate rotation", pki.rotateIfDue());
    rotation = clock.after(ROTATE_CHECK_MS, keepRotating);
  }
}

/** A server that listens everywhere is called by its name. */
function spiceHost({ host }: Pick<ServerSettings, "host">, nodeName: string): string {
  return host === "0.0.0.0" || host === "::" ? nodeName : host;
}
