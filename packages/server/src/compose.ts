// Wires one server. The only file here that constructs adapters.
//
//   openServer: store -> records -> secrets, PKI, access, board, operations    (nothing listens yet)
//   start:      the agent of this process, if there is one, then the listener
import { randomBytes, randomUUID } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import { operationTasks } from "@gpve/domain/task/operation-tasks.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { TaskLogFiles } from "@gpve/kit/task-log/task-log-files.ts";
import { span, tracingIsOn } from "@gpve/kit/telemetry/span.ts";
import { tracedExec } from "@gpve/kit/telemetry/traced-exec.ts";
import { traceparent } from "@gpve/kit/telemetry/traceparent.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { createAccess } from "./application/access/access.ts";
import { NodeConditionTimes } from "./application/condition/node-condition-times.ts";
import type { MoveJudge } from "./application/guest/movable-guests.ts";
import { composeGuestReads } from "./compose-guest-reads.ts";
import { bootstrapAccess } from "./application/access/bootstrap.ts";
import type { OpenServer } from "./open-server.ts";
import type { ServerSettings } from "./server-settings.ts";
import { composeAgentFace, composeDirectory } from "./compose-agent-face.ts";
import { composeBackupJobs } from "./compose-backup-jobs.ts";
import { composeReplicas } from "./compose-replicas.ts";
import { composeReplication } from "./compose-replication.ts";
import { composeGuestsAtOnce } from "./compose-guests-at-once.ts";
import { composeHa } from "./compose-ha.ts";
import { composeConsoles } from "./compose-consoles.ts";
import { composeMappings } from "./compose-mappings.ts";
import { composeOperations, serverJournals } from "./compose-operations.ts";
import { composeQuotas } from "./compose-quota.ts";
import { composeScheduler } from "./compose-scheduler.ts";
import { composePveHandlers } from "./compose-pve-handlers.ts";
import { composeEvents, composeKinds, composePhases, composeV1 } from "./compose-v1.ts";
import { freshReads, ownedStore, readableRecords } from "./application/fresh-reads.ts";
import { withServerTasks } from "./application/node/server-tasks.ts";
import { publishedServerTasks } from "./application/task/published-server-tasks.ts";
import { recordAudit } from "./application/audit/record-audit.ts";
import { MemoryNodeBoard } from "./application/node/board.ts";
import { nodeRecords } from "./application/node/collections.ts";
import type { NodeDirectory } from "./application/node/directory.ts";
import { Membership } from "./application/node/membership.ts";
import { keepDeclaredStorages } from "./application/storage/declared-storages.ts";
import { keepStorageDefaults } from "./application/storage/keep-storage-defaults.ts";
import { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import { StorageSecrets } from "./application/storage/storage-secrets.ts";
import { keepGuestPools } from "./application/pool/guest-pools.ts";
import { openFileAuditLog } from "./infrastructure/audit/file-audit-log.ts";
import { leader } from "./infrastructure/leadership/store-leadership.ts";
import { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import { ShownCertificates } from "./infrastructure/pki/shown-certificates.ts";
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
import { vclusterMetrics } from "./presentation/metrics/vcluster-metrics.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";

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
    otherRealms: {},
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
  const certificates = new ShownCertificates({ pki, files: settings.certificateFiles, clock, log });
  const journals = serverJournals(store);
  const serves = (name: string): Promise<boolean> => journals.isOwned(name);
  const board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
  const membership = new Membership({ records, clock, issuer: pki, random: randomBytes, serves, board });
  const storageSecrets = new StorageSecrets(records, sealer);
  const storages = new StorageDefinitions(records, data.path, storageSecrets);
  await storages.ensureDefault(data.file("storage", "local"));
  if (settings.storageDefaults !== undefined)
    await keepStorageDefaults(records, settings.storageDefaults, log);
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
  const conditionTimes = new NodeConditionTimes({ records, board, clock, log });
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
  const { gate, view } = quotas;
  const reads = settings.shared ? freshReads({ records, clock, log }) : ownedStore;
  const { fenceCommand } = settings;
  const own = { records, board, clock, log, nodeName, engine, exec: runExec };
  const effects: MoveJudge = { effectsOf: (sid, target) => ha.rules.effectsOf(sid, target) };
  const guestReads = composeGuestReads({ records, access, board, storages, ha: effects });
  const { movable } = guestReads;
  const ha = composeHa({ ...own, holder: owner, quorate: reads.answers, fenceCommand, movable });
  const calls = new NodeCalls({
    agents: () => agents,
    localNode: nodeName,
    decide: access.decide,
    gate,
    divert: (route, call, ctx) => ha.power.divert(route, call, ctx),
  });
  const { scheduler: config } = settings;
  const scheduler = composeScheduler({ records, board, clock, log, config, quotas: quotas.ledger });
  const kinds = composeKinds({
    scheduler,
    phases,
    records,
    clock,
    engine,
    board,
    membership,
    shared,
    calls,
    quotas: view,
    conditionTimes,
    sealer,
    storages,
    nodeName,
    stop: stop.signal,
  });
  const atOnce = composeGuestsAtOnce({ ...own, access, calls });
  const register = (each: OperationEngine): void => {
    for (const part of [kinds, ha, atOnce]) part.register(each);
  };
  register(engine);

  const ready = settings.shared ? undefined : new ReadyReads();
  const lead = leader({ store, clock, log, candidate: owner });
  const backupJobs = composeBackupJobs({ ...own, access, lead });
  const { recordEvent } = events;
  const replicas = composeReplicas({ ...own, calls, lead, recordEvent, kinds, scheduler, quotas: view });
  const replication = composeReplication({
    ...own,
    calls,
    storages: () => storages.definitions(),
    lead,
  });
  let working: Promise<unknown> = Promise.resolve();
  let listener: Listener | undefined;
  let spice: SpiceProxy | undefined;
  let directory: NodeDirectory | undefined;
  let stopCertificates = (): void => undefined;
  let stopHangingUp = (): void => undefined;
  const stopBoard = board.start();
  const stopPools = keepGuestPools({ records, clock, log });
  const stopDeclared = keepDeclaredStorages({ records, storages, board, log });

  return {
    records,
    access,
    storages,
    storageSecrets,
    pki,
    certificates,
    membership,
    board,
    engine,
    tasks: operationTasks(engine, clock),
    taskLogs,
    audit,
    bootstrapped,
    log,
    async start(local) {
      directory = composeDirectory({ records, pki, membership, clock, board, ...guestReads }, local.agent);
      await operations.start(register);
      agents = withServerTasks(directory, {
        localNode: nodeName,
        own: operationTasks(engine, clock),
        published: publishedServerTasks(records, clock),
        clock,
        serve: local.serverTasks,
      });
      const reach = { calls, localNode: nodeName, tickets, certificate: () => certificates.shown().certPem };
      const consoles = composeConsoles({
        ...shared,
        ...reach,
        isProxy,
        records,
        clock,
        fresh: reads.fresh,
        decide: access.decide,
        caPem: () => pki.caPem,
        spiceProxy: () => spice?.reach,
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
            ...guestReads,
            membership,
            quotas: quotas.ledger,
            storages,
            reads,
            nodeName,
            clusterName: settings.clusterName,
            ...reach,
            caPem: () => pki.caPem,
            shown: () => certificates.shown(),
          }),
          ...backupJobs.handlers,
          ...replication.handlers,
          ...ha.handlers,
          ...atOnce.handlers,
          ...consoles.handlers,
          ...composeMappings({ records, ...reach, dataDir: data.path, storages }),
        },
        calls,
        placement: scheduler.guests,
        localNode: nodeName,
        knowsNode: (node) => node === nodeName || board.get(node) !== undefined,
        uploads: new AgentUploads({ calls, newRequestId: shared.newRequestId }),
        // Only this process writes to an embedded store, and a write is in memory before its answer goes out.
        fresh: reads.fresh,
        ageSeconds: reads.ageSeconds,
        ready: () => (ready === undefined || tracingIsOn() ? undefined : ready),
      });
      const v1 = composeV1({
        shared,
        phases,
        records: settings.shared ? readableRecords(records, reads) : records,
        ageSeconds: reads.ageSeconds,
        store,
        clock,
        engine,
        board,
        membership,
        pki,
        audit,
        calls,
        scheduler,
        adapters: kinds.adapters,
        seals: kinds.seals,
        ha: ha.face,
        vclusters: kinds.vclusters,
        failover: replication.failover,
        vclusterSaves: kinds.vclusterSaves,
        vclusterMoves: kinds.vclusterMoves,
        vclusterWorkerMoves: kinds.vclusterWorkerMoves,
        storeMembers: settings.storeMembers,
        shutdown: stop.signal,
      });
      const agentFace = composeAgentFace({
        membership,
        storageSecrets,
        board,
        pki,
        store,
        records,
        clock,
        log,
        serverVersion: PRODUCT_VERSION,
        forServers: settings.forServers,
        clusterName: settings.clusterName ?? nodeName,
      });
      listener = await listen({
        host: settings.host,
        port: settings.port,
        ...certificates.pair(),
        isProxy,
        onRequest: createEntry({ pve, v1, log, isProxy }),
        onUpgrade: consoles.onUpgrade,
        ...agentFace.options,
        passOn: replicas.passOn,
      });
      if (settings.spicePort !== undefined) {
        spice = await listenForSpice({
          host: settings.host,
          nodeName,
          port: settings.spicePort,
          certificate: () => certificates.pair().agentCertificate,
          calls,
          verify: (ticket) => tickets.verifySpice(ticket),
          newRequestId: shared.newRequestId,
          log,
        });
      }
      stopHangingUp = agentFace.watch(listener);
      stopCertificates = certificates.keep(listener, () => directory?.reset());
      metrics.addCollector(() => nodeMetrics(board));
      metrics.addCollector(() => scheduler.figures.text());
      metrics.addCollector(() => vmStates(board, records.collection(guestCollection).list()));
      metrics.addCollector(() => vclusterMetrics(board, records.collection(vclusterCollection).list()));
      const { signal } = stop;
      const rebalancing = scheduler.startRebalancing({ calls, lead, signal });
      working = Promise.all([
        backupJobs.start(calls, signal),
        replication.start(signal),
        replicas.start(signal),
        ha.start(signal),
        reads.keep(signal),
        rebalancing,
      ]);
      return listener;
    },
    async close() {
      stopCertificates();
      stopHangingUp();
      stop.abort(new AppError("operation.cancelled", "the server stops"));
      await spice?.close();
      await listener?.close();
      await working;
      directory?.close();
      stopPools();
      stopDeclared();
      quotas.stop();
      scheduler.stop();
      stopBoard();
      await conditionTimes.close();
      await events.close();
      await operations.close();
      await audit.close();
      await records.close();
    },
  };
}
