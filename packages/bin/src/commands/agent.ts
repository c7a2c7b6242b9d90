// `gpve agent --config FILE`: the agent of one node, talking to servers elsewhere.
import { startAgent } from "@gpve/agent/compose.ts";
import { IdentityStore, type AgentIdentity } from "@gpve/agent/infrastructure/server-link/identity.ts";
import { MoveDialer } from "@gpve/agent/infrastructure/move/move-dialer.ts";
import { FolderMoveKeys } from "@gpve/agent/infrastructure/move/move-keys.ts";
import { MoveDoor } from "@gpve/agent/infrastructure/move/move-door.ts";
import { MOVE_PROTOCOL } from "@gpve/agent/infrastructure/move/move-wire.ts";
import { moveServers } from "@gpve/agent/infrastructure/server-link/move-servers.ts";
import { storageSecrets } from "@gpve/agent/infrastructure/server-link/storage-secrets.ts";
import { findSupervisor } from "@gpve/agent/infrastructure/supervisor/find-supervisor.ts";
import { ServerLink } from "@gpve/agent/infrastructure/server-link/server-link.ts";
import { ServerLinks } from "@gpve/agent/infrastructure/server-link/server-links.ts";
import { untilJoined } from "@gpve/agent/infrastructure/server-link/until-joined.ts";
import { listenForServers } from "@gpve/agent/presentation/grpc/listener.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { agentCorner, plainFingerprint } from "@gpve/domain/node/record.ts";
import { placeCollection } from "@gpve/domain/node/server-place.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import { storageCollection, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { TaskPublisher } from "@gpve/domain/task/ports.ts";
import { background } from "@gpve/kit/background.ts";
import { exec } from "@gpve/kit/exec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { parseAgentConfiguration } from "@gpve/kit/config/configuration.ts";
import { readCertificate } from "@gpve/kit/pki/x509.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { bootId } from "@gpve/kit/process-identity.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { RecordsTaskPublisher } from "@gpve/domain/task/records-task-publisher.ts";
import { etcdStoreOver, type StoreOverLinks } from "@gpve/store/etcd/etcd-store.ts";
import { linkOver, type Link } from "@gpve/store/etcd/link.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { readCaFile } from "../ca-file.ts";
import { configPath, readConfigFile } from "../config-file.ts";
import type { Io } from "../io.ts";
import { startObservability } from "../observability.ts";
import { showDataDir } from "../show-data-dir.ts";
import { untilSignalled } from "../until-signalled.ts";
import { commandOptions } from "./options.ts";
import { reachableAddress } from "../machine-names.ts";
import { knownServers } from "../known-servers.ts";
import { selfProgram } from "../self-command.ts";
import { supervisorSource } from "../supervisor-source.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import { fenceKeeper } from "../ensure-fence.ts";
import { agentSettings, type AgentFileSettings } from "../settings/agent-settings.ts";

const OPEN_RETRY_MS = 1_000;
const REPORT_WITHOUT_RECORDS_MS = 10_000;

export async function agent(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("agent", args, { config: { type: "string" }, data: { type: "string" } });
  const settings = agentSettings(readConfigFile("agent", options.config, parseAgentConfiguration));
  showDataDir("agent", args, settings.dataDir);
  const data = openDataDir(options.data ?? settings.dataDir);
  const lock = acquireProcessLock(data.file("run", "agent.lock"));
  try {
    const clock = systemClock;
    const { nodeName, address, port } = settings.node;
    const observability = await startObservability({
      component: "agent",
      ...settings.observability,
      attributes: { "gpve.node": nodeName },
    });
    const { log, metrics } = observability;
    const identities = new IdentityStore({ dir: data.file("pki"), clock });
    let identity = (await identities.load(nodeName)) ?? (await join(identities, settings, log));

    const supervisor = supervisorSource(data);
    const { path: carrier } = await findSupervisor({ supervisor, data, exec, log });
    const moveFolder = data.file("run", "move");
    const servers = knownServers(data, settings.join.endpoints, log);
    const links = new ServerLinks({ log, open: (endpoint) => openLink(endpoint) });
    const cluster = new ClusterView({
      node: nodeName,
      links: () => links.all(),
      log,
      onServers: (urls) => {
        if (!servers.tell(urls)) return;
        log.info({ servers: servers.urls() }, "servers of the cluster have come or gone");
        links.use(servers.urls());
        cluster.useLinks();
      },
    });
    const running = await startAgent({
      data,
      supervisor,
      self: selfProgram(),
      front: { host: address, name: reachableAddress(address) },
      nodeName,
      accessOf: (actor) => cluster.accessOf(actor),
      publisher: cluster,
      storages: () => cluster.storages(),
      storageSecret: storageSecrets(() => links.all()),
      guestType: (vmid) => cluster.guestType(vmid),
      records: () => cluster.records(),
      uidSeed: plainFingerprint(readCertificate(identity.caPem).fingerprint),
      moves: {
        servers: moveServers(() => links.all()),
        peers: new MoveDialer({ identity: () => identity, folder: moveFolder, carrier }),
        keys: new FolderMoveKeys(moveFolder),
      },
      clusterName: () =>
        links
          .all()
          .map((link) => link.clusterName)
          .find((name) => name !== undefined),
      log,
      metrics,
      ...settings.agent,
      fence: { ensure: fenceKeeper(data, configPath("agent", options.config), log) },
    });
    const door = new MoveDoor({ node: nodeName, receiver: running.receiver, clock, log, carrier });
    const listener = await listenForServers({
      agent: cluster.readyFor(running.agent),
      address,
      port,
      tls: identity,
      moves: { protocol: MOVE_PROTOCOL, accept: (socket, proven) => door.accept(socket, proven) },
    });
    const use = (next: AgentIdentity): void => {
      identity = next;
      listener.setTls(next);
    };
    const joinAgain = afterRemoval(log, async () => {
      use(await join(identities, settings, log));
      links.reopen();
    });
    const openLink = (endpoint: string): ServerLink =>
      new ServerLink({
        endpoint,
        node: nodeName,
        address,
        port,
        agentVersion: PRODUCT_VERSION,
        bootId: bootId(),
        clock,
        log,
        identity: () => identity,
        onIdentity: (renewed: AgentIdentity) => use(identities.save(renewed)),
        onRefused: joinAgain,
        // A node counts as online by its first report: whoever sees it so may ask it for something at once.
        follow: async (send, options) => {
          await cluster.opened(options.signal);
          await running.reporter.follow(send, options);
        },
      });
    links.use(servers.urls());
    links.start();
    background(log, "following the cluster's records", cluster.open());
    io.out(`gpve-agent ${PRODUCT_VERSION} runs node ${nodeName} on ${address}:${listener.port}`);
    return await untilSignalled(async () => {
      // Servers hold back what comes now; what is under way still needs the lines to them.
      await links.goodbye();
      await listener.close();
      await links.close();
      await running.close();
      await cluster.close();
      await observability.close();
    });
  } finally {
    lock.release();
  }
}

/**
 * A node that was removed joins with the token in its configuration, if that is a new one: as a new node, with a new
 * key. Each start has one try, for all its lines together; a token that was refused stays refused.
 */
function afterRemoval(log: Logger, join: () => Promise<void>): () => Promise<void> {
  let tried: Promise<void> | undefined;
  return () =>
    (tried ??= join().then(
      () => log.info({}, "the node has joined again"),
      (err: unknown) =>
        log.error(
          { err: messageOf(err) },
          "the cluster knows this node no more, and its token does not let it join: make a new one with gpvectl node join-command, put it into server.token and start the agent again",
        ),
    ));
}

async function join(
  identities: IdentityStore,
  { node, join }: AgentFileSettings,
  log: Logger,
): Promise<AgentIdentity> {
  const { token, caFile } = join;
  const [endpoint] = join.endpoints;
  if (token === undefined || endpoint === undefined) {
    throw new AppError(
      "config.invalid",
      `node ${node.nodeName} has not joined a cluster yet: set server.endpoint and server.token; a server makes the token with: gpvectl node join-command`,
    );
  }
  const caPem = caFile === undefined ? undefined : readCaFile(caFile);
  const joining = { endpoint, token, node: node.nodeName, address: node.address, port: node.port };
  return untilJoined(
    () => identities.join({ ...joining, agentVersion: PRODUCT_VERSION, ...given({ caPem }) }),
    { clock: systemClock, say: (why) => log.warn({ err: why, endpoint }, "cannot join yet") },
  );
}

function lineOver(link: ServerLink): Link {
  return linkOver(
    link.endpoint,
    () => link.transport(),
    () => (link.connected() ? undefined : "no line to this server yet"),
  );
}

interface ClusterViewDeps {
  readonly node: string;
  readonly links: () => readonly ServerLink[];
  readonly log: Logger;
  /** All servers that there are, whenever that may have changed. */
  readonly onServers: (urls: readonly string[]) => void;
}

/** The cluster's records as this agent sees them through any server; deny by default until they are there. */
class ClusterView implements TaskPublisher {
  readonly #deps: ClusterViewDeps;
  #store: StoreOverLinks | undefined;
  #records: Awaited<ReturnType<typeof openRecords>> | undefined;
  #access: AccessDirectory | undefined;
  #tasks: RecordsTaskPublisher | undefined;
  readonly #opened = Promise.withResolvers<undefined>();
  #isClosed = false;

  constructor(deps: ClusterViewDeps) {
    this.#deps = deps;
  }

  /** A node that was removed is refused at first, and let in when it has joined again: so this is tried until it works. */
  async open(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#openOnce();
        this.#opened.resolve(undefined);
        return;
      } catch (err) {
        if (this.#isClosed) return;
        this.#deps.log.warn({ err: messageOf(err) }, "the cluster's records cannot be followed yet");
        await this.#store?.close();
        await systemClock.sleep(OPEN_RETRY_MS);
      }
    }
  }

  /** Waits for the records, but not for long: what runs here is told without them too, where the store has no quorum. */
  async opened(signal: AbortSignal): Promise<void> {
    const enough = AbortSignal.any([signal, AbortSignal.timeout(REPORT_WITHOUT_RECORDS_MS)]);
    const gaveUp = Promise.withResolvers<undefined>();
    enough.addEventListener("abort", () => gaveUp.resolve(undefined), { once: true });
    await Promise.race([this.#opened.promise, gaveUp.promise]);
  }

  /** An agent that has just started can judge nothing yet: calls wait for the records as reports do. */
  readyFor(agent: AgentConnection): AgentConnection {
    const tunnel = agent.tunnel?.bind(agent);
    return {
      node: agent.node,
      call: async (call, signal) => {
        await this.opened(signal);
        return agent.call(call, signal);
      },
      ...(tunnel === undefined
        ? {}
        : {
            tunnel: async (request, input, signal) => {
              await this.opened(signal);
              return tunnel(request, input, signal);
            },
          }),
    };
  }

  async #openOnce(): Promise<void> {
    const { node, links, log, onServers } = this.#deps;
    this.#store = etcdStoreOver(links().map(lineOver));
    const records = await openRecords(this.#store, {
      prefix: "/gpve/",
      corner: agentCorner(node),
      log,
      startTimeoutMs: Number.MAX_SAFE_INTEGER,
    });
    this.#records = records;
    this.#access = new AccessDirectory({ records, clock: systemClock });
    this.#tasks = new RecordsTaskPublisher(records);
    const places = records.collection(placeCollection);
    const tell = (): void => onServers(places.list().map(({ value }) => value.url));
    places.onChange(tell);
    tell();
  }

  /** Servers have come or gone. */
  useLinks(): void {
    const lines = new Map(this.#deps.links().map((link) => [link.endpoint, link]));
    this.#store?.use([...lines.keys()], (url) => {
      const link = lines.get(url);
      if (link === undefined) throw new AppError("internal.error", `no line to ${url}`);
      return lineOver(link);
    });
  }

  records(): Records {
    if (this.#records === undefined)
      throw new AppError("store.unavailable", "this node has not reached a server yet");
    return this.#records;
  }

  accessOf(actor: Actor | undefined): AccessView {
    if (this.#access === undefined)
      throw new AppError("store.unavailable", "this node has not reached a server yet");
    return this.#access.view(actor);
  }

  /** None until a server was reached: nothing is done with storages nobody knows. */
  storages(): readonly StorageDefinition[] {
    return (
      this.#records
        ?.collection(storageCollection)
        .list()
        .map(({ value }) => value) ?? []
    );
  }

  guestType(vmid: number): GuestType | undefined {
    return this.#records?.collection(guestCollection).get(String(vmid))?.value.type;
  }

  apply(changes: Parameters<TaskPublisher["apply"]>[0]): Promise<void> {
    return this.#publisher().apply(changes);
  }

  published(node: string): ReturnType<TaskPublisher["published"]> {
    return this.#publisher().published(node);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#records?.close();
    await this.#store?.close();
  }

  #publisher(): RecordsTaskPublisher {
    if (this.#tasks === undefined)
      throw new AppError("store.unavailable", "this node has not reached a server yet");
    return this.#tasks;
  }
}
