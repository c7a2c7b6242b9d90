// The agent's line to one server: hello, then heartbeats and reports side by side, for ever. Whatever breaks is
// retried after a short, growing pause; nothing needs a restart on either side.
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { AGENT_PROTOCOL, GOODBYE_SINCE } from "@gpve/contracts/agent/protocol.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeReport } from "@gpve/domain/node/runtime.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel, rootMessage, type Channel } from "@gpve/kit/grpc/channel.ts";
import { notAServer } from "@gpve/kit/pki/server-role.ts";
import { createKeyPair, createRequest } from "@gpve/kit/pki/x509.ts";
import type { AgentIdentity } from "./identity.ts";

export interface ServerLinkDeps {
  readonly endpoint: string;
  readonly node: string;
  readonly address: string;
  readonly port: number;
  readonly agentVersion: string;
  readonly bootId: string;
  readonly clock: Clock;
  readonly log: RequestLogger;
  readonly identity: () => AgentIdentity;
  /** A renewed certificate arrived: keep it and use it. */
  readonly onIdentity: (identity: AgentIdentity) => void;
  /** The server knows this node no more. Called before the next try. */
  readonly onRefused: () => Promise<void>;
  /** Sends reports, one after the other, until the signal fires. */
  readonly follow: (
    send: (report: NodeReport) => Promise<unknown>,
    options: {
      readonly signal: AbortSignal;
      readonly intervalMs: number;
      readonly wantsFacts: () => boolean;
    },
  ) => Promise<void>;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 3_000;
const CALL_TIMEOUT_MS = 4_000;
const GOODBYE_TIMEOUT_MS = 1_000;

export class ServerLink {
  readonly #deps: ServerLinkDeps;
  readonly #stop = new AbortController();
  #channel: Channel | undefined;
  #running: Promise<void> | undefined;
  #connected = false;
  #clusterName: string | undefined;
  /** As agreed when the line was last up. */
  #protocol = 0;

  constructor(deps: ServerLinkDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Asks the server to wait for this agent; one that cannot be told finds out. */
  async goodbye(): Promise<void> {
    if (!this.#connected || this.#protocol < GOODBYE_SINCE) return;
    const { node, log, endpoint } = this.#deps;
    try {
      await createClient(ServerService, this.transport()).goodbye(
        { node },
        { timeoutMs: GOODBYE_TIMEOUT_MS },
      );
    } catch (err) {
      log.warn({ endpoint, err: rootMessage(err) }, "the server could not be told that the agent stops");
    }
  }

  async close(): Promise<void> {
    this.#stop.abort(new AppError("operation.cancelled", "the agent stops"));
    this.#channel?.close();
    await this.#running;
  }

  connected(): boolean {
    return this.#connected;
  }

  /** As the server said when the line was last up. */
  get clusterName(): string | undefined {
    return this.#clusterName;
  }

  get endpoint(): string {
    return this.#deps.endpoint;
  }

  /** For other services of the same server (the Store). */
  transport(): Transport {
    this.#channel ??= this.#open();
    return this.#channel.transport;
  }

  #open(): Channel {
    const { endpoint, clock, identity } = this.#deps;
    return createChannel({
      url: endpoint,
      tls: identity(),
      clock,
      acceptPeer: (_host, certificate) => notAServer(endpoint, certificate),
    });
  }

  async #run(): Promise<void> {
    const { clock, log, endpoint } = this.#deps;
    let pause = FIRST_PAUSE_MS;
    while (!this.#stop.signal.aborted) {
      try {
        await this.#session(() => {
          pause = FIRST_PAUSE_MS;
        });
      } catch (err) {
        if (this.#stop.signal.aborted) break;
        const told = appErrorOf(err);
        log.warn({ endpoint, err: told?.message ?? rootMessage(err) }, "line to the server is down");
        if (told?.code === "access.denied") await this.#deps.onRefused();
      }
      this.#connected = false;
      await clock.sleep(pause, this.#stop.signal).catch(() => undefined);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  async #session(onHello: () => void): Promise<void> {
    const { node, clock, log, endpoint } = this.#deps;
    const client = createClient(ServerService, this.transport());
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ended.signal]);
    const hello = await client.hello(
      {
        node,
        protocol: { ...AGENT_PROTOCOL },
        agentVersion: this.#deps.agentVersion,
        address: this.#deps.address,
        port: this.#deps.port,
        bootId: this.#deps.bootId,
      },
      { signal, timeoutMs: CALL_TIMEOUT_MS },
    );
    this.#connected = true;
    this.#protocol = hello.protocol;
    this.#clusterName = hello.clusterName === "" ? undefined : hello.clusterName;
    onHello();
    log.info({ endpoint, protocol: hello.protocol, server: hello.serverVersion }, "line to the server is up");
    const wants = { facts: true };
    try {
      await Promise.race([
        this.#heartbeats(client, hello.heartbeatIntervalMs, wants, signal),
        this.#reports(client, hello.reportIntervalMs, wants, signal),
      ]);
    } finally {
      ended.abort(new AppError("operation.cancelled", `session with ${endpoint} ended at ${clock.now()}`));
    }
  }

  async #heartbeats(
    client: Client<typeof ServerService>,
    intervalMs: number,
    wants: { facts: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { node, clock } = this.#deps;
    for (;;) {
      const answer = await client.heartbeat(
        { node, sentAtMs: BigInt(Math.trunc(clock.now())) },
        { signal, timeoutMs: CALL_TIMEOUT_MS },
      );
      if (answer.wantsFacts) wants.facts = true;
      if (answer.renewCertificate) {
        await this.#renew(client, signal);
        return;
      }
      // The server was started anew between two heartbeats: the next session begins with what it must know.
      if (answer.wantsHello) return;
      await clock.sleep(intervalMs, signal);
    }
  }

  async #reports(
    client: Client<typeof ServerService>,
    intervalMs: number,
    wants: { facts: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#deps.follow(
      (report) =>
        client.report({ reportJson: JSON.stringify(report) }, { signal, timeoutMs: CALL_TIMEOUT_MS }),
      {
        signal,
        intervalMs,
        wantsFacts: () => {
          const { facts } = wants;
          wants.facts = false;
          return facts;
        },
      },
    );
  }

  /** A new key with every certificate. The session ends, the next one uses the new pair. */
  async #renew(client: Client<typeof ServerService>, signal: AbortSignal): Promise<void> {
    const { node, log } = this.#deps;
    const pair = await createKeyPair();
    const answer = await client.renewCertificate(
      { node, csrPem: await createRequest(pair, node) },
      { signal, timeoutMs: CALL_TIMEOUT_MS },
    );
    this.#deps.onIdentity({
      caPem: answer.caPem,
      certPem: answer.certificatePem,
      keyPem: pair.keyPem,
    });
    log.info({ node }, "certificate renewed");
    this.reopen();
  }

  /** The next call is on a new line, with the identity of then. Calls on the old one get a moment to finish. */
  reopen(): void {
    const old = this.#channel;
    this.#channel = undefined;
    this.#deps.clock.after(5_000, () => old?.close());
  }
}
