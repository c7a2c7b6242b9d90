// This node's key and certificate in DIR/pki (mode 0600): made at the first start, traded for a certificate once.
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { AGENT_PROTOCOL } from "@gpve/contracts/agent/protocol.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { parseJoinToken, plainFingerprint } from "@gpve/domain/node/record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel, rootMessage } from "@gpve/kit/grpc/channel.ts";
import { notTheServerAt } from "@gpve/kit/pki/server-role.ts";
import {
  createKeyPair,
  createRequest,
  isPair,
  loadKeyPair,
  readCertificate,
  type KeyPair,
} from "@gpve/kit/pki/x509.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export interface AgentIdentity {
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export interface JoinOptions {
  /** "https://server:8443" */
  readonly endpoint: string;
  readonly token: string;
  readonly node: string;
  /** Empty: the address the server sees. */
  readonly address: string;
  readonly port: number;
  readonly agentVersion: string;
  /** The CA's certificate when it was brought along; it must match the token. */
  readonly caPem?: string;
}

export class IdentityStore {
  readonly #dir: string;
  readonly #clock: Clock;

  constructor(deps: { dir: string; clock: Clock }) {
    this.#dir = deps.dir;
    mkdirSync(deps.dir, { recursive: true, mode: 0o700 });
    this.#clock = deps.clock;
  }

  /** The identity from an earlier start; undefined when this node has not joined yet, or not under this name. */
  async load(node: string): Promise<AgentIdentity | undefined> {
    const caPem = readTextFile(join(this.#dir, "ca.crt"));
    const both = readTextFile(join(this.#dir, "agent.pem"));
    if (caPem === undefined || both === undefined) return undefined;
    const keyPem = both.slice(0, both.indexOf("-----BEGIN CERTIFICATE-----"));
    const certPem = both.slice(keyPem.length);
    const facts = readCertificate(certPem);
    if (facts.commonName !== node || facts.notAfter <= this.#clock.now()) return undefined;
    return (await isPair(certPem, await loadKeyPair(keyPem))) ? { caPem, certPem, keyPem } : undefined;
  }

  async require(node: string): Promise<AgentIdentity> {
    const identity = await this.load(node);
    if (identity !== undefined) return identity;
    throw new AppError(
      "config.invalid",
      `node ${node} has not joined a cluster yet: its agent does that first`,
    );
  }

  /** Trades the token for a certificate. The key is kept first, so that a repeated try is the same node. */
  async join(options: JoinOptions): Promise<AgentIdentity> {
    const token = parseJoinToken(options.token);
    if (token === undefined) {
      throw new AppError(
        "config.invalid",
        "server.token is not a join token (gpve-join.…): make one on a server",
      );
    }
    const caPem = options.caPem ?? (await fetchAuthority(options.endpoint, token.caFingerprint));
    if (plainFingerprint(readCertificate(caPem).fingerprint) !== token.caFingerprint) {
      throw new AppError(
        "config.invalid",
        "the join token belongs to a cluster with another certificate authority",
      );
    }
    const pair = await this.#pair(token.id);
    const channel = createChannel({
      url: options.endpoint,
      tls: { caPem },
      clock: this.#clock,
      acceptPeer: notTheServerAt,
    });
    try {
      const answer = await createClient(ServerService, channel.transport).join(
        {
          token: options.token.trim(),
          node: options.node,
          address: options.address,
          port: options.port,
          csrPem: await createRequest(pair, options.node),
          protocol: { ...AGENT_PROTOCOL },
          agentVersion: options.agentVersion,
          sentAtMs: BigInt(Math.trunc(this.#clock.now())),
        },
        { timeoutMs: 15_000 },
      );
      return this.save({ caPem: answer.caPem, certPem: answer.certificatePem, keyPem: pair.keyPem });
    } catch (cause) {
      throw (
        appErrorOf(cause) ??
        new AppError("node.unavailable", `cannot join at ${options.endpoint}: ${rootMessage(cause)}`, {
          cause,
        })
      );
    } finally {
      channel.close();
    }
  }

  /** Key and certificate in one file: a crash leaves the old pair or the new one, never half of each. */
  save(identity: AgentIdentity): AgentIdentity {
    writeFileAtomic(join(this.#dir, "ca.crt"), identity.caPem);
    const both = `${identity.keyPem.trim()}\n${identity.certPem.trim()}\n`;
    writeFileAtomic(join(this.#dir, "agent.pem"), both);
    return identity;
  }

  /** One key for each token: the same token again is the same node, another one is a new node. */
  async #pair(tokenId: string): Promise<KeyPair> {
    const name = `join-${tokenId}.key`;
    const stored = readTextFile(join(this.#dir, name));
    if (stored !== undefined) return loadKeyPair(stored);
    const pair = await createKeyPair();
    writeFileAtomic(join(this.#dir, name), pair.keyPem);
    for (const other of readdirSync(this.#dir)) {
      if (/^join.*\.key$/.test(other) && other !== name) rmSync(join(this.#dir, other), { force: true });
    }
    return pair;
  }
}

/** Takes the CA's certificate from the chain the server shows, if it is the one the token was made for. */
export async function fetchAuthority(endpoint: string, fingerprint: string): Promise<string> {
  const url = new URL(endpoint);
  const chain = await new Promise<string[]>((resolve, reject) => {
    const socket = connect(
      {
        host: url.hostname.replace(/^\[|\]$/g, ""),
        port: Number(url.port === "" ? "443" : url.port),
        // Nothing is sent on this connection; the chain is judged by the fingerprint in the token.
        rejectUnauthorized: false,
        minVersion: "TLSv1.3",
        ALPNProtocols: ["h2"],
        timeout: 5_000,
      },
      () => {
        const found: string[] = [];
        let current = socket.getPeerX509Certificate();
        while (current !== undefined && found.length < 8) {
          found.push(current.toString());
          current = current.issuerCertificate;
        }
        socket.destroy();
        resolve(found);
      },
    );
    const fail = (cause?: Error): void => {
      socket.destroy();
      const why = cause === undefined ? "no answer within 5 s" : cause.message;
      reject(new AppError("node.unavailable", `cannot reach ${endpoint}: ${why}`, { cause }));
    };
    socket.once("timeout", () => fail());
    socket.once("error", fail);
  });
  const authority = chain.find((pem) => plainFingerprint(readCertificate(pem).fingerprint) === fingerprint);
  if (authority === undefined) {
    throw new AppError(
      "auth.failed",
      `the server at ${endpoint} does not belong to the cluster the join token was made for (CA fingerprint differs)`,
    );
  }
  return authority;
}
