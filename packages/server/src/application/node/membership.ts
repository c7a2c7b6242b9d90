// How nodes come into the cluster and stay in it: invitations, join, certificate renewal, removal.
import { createHash, timingSafeEqual } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  formatJoinToken,
  isNodeName,
  parseJoinToken,
  plainFingerprint,
  type JoinTokenRecord,
  type NodeRecord,
} from "@gpve/domain/node/record.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { joinTokens, nodeRecords } from "./collections.ts";
import { LivingNodes, type LivingNodesDeps } from "./living-nodes.ts";
import { removeNode } from "./remove-node.ts";
import { ServerPlaces } from "./server-places.ts";

/** What membership needs of the cluster's certificate authorities. */
export interface CertificateIssuer {
  /** The servers' authority, which agents are to trust. */
  readonly caPem: string;
  /** "AA:BB:.." */
  readonly caFingerprint: string;
  /** Throws request.invalid when the request is malformed or not signed by its key. */
  keyFingerprint(csrPem: string): Promise<string>;
  issueAgent(csrPem: string, node: string): Promise<{ certPem: string; fingerprint: string }>;
}

export interface MembershipDeps extends LivingNodesDeps {
  readonly issuer: CertificateIssuer;
  readonly random: (bytes: number) => Uint8Array;
  /** Whether a server of that name runs: it holds the journal of its name. */
  readonly serves: (name: string) => Promise<boolean>;
}

export interface JoinRequest {
  readonly token: string;
  readonly node: string;
  readonly address: string;
  readonly port: number;
  readonly csrPem: string;
}

export interface IssuedIdentity {
  readonly certPem: string;
  readonly caPem: string;
}

const REFUSED = "join token is unknown, used or expired: make a new one on a server";

export class Membership {
  readonly servers: ServerPlaces;
  readonly #deps: MembershipDeps;
  readonly #living: LivingNodes;
  #ownNode: string | undefined;

  constructor(deps: MembershipDeps) {
    this.#deps = deps;
    this.#living = new LivingNodes(deps);
    this.servers = new ServerPlaces(deps.records, deps.serves);
  }

  /** The answer is the only place where the token is ever readable. */
  async invite(options: {
    ttlMs: number;
    createdBy: string;
    node?: string;
    /** For a further server instead of a node. */
    server?: boolean;
  }): Promise<{ token: string; expiresAt: number }> {
    const { records, clock, random, issuer } = this.#deps;
    const id = Buffer.from(random(6)).toString("hex");
    const secret = Buffer.from(random(32)).toString("base64url");
    const expiresAt = clock.now() + options.ttlMs;
    await records.transact((tx) => {
      // Old invitations are swept here: nothing else ever looks at them.
      for (const entry of tx.list(joinTokens)) {
        if (entry.value.expiresAt <= clock.now()) tx.delete(joinTokens, entry.id);
      }
      tx.put(joinTokens, id, {
        id,
        hash: sha256(secret),
        expiresAt,
        createdBy: options.createdBy,
        ...given({ node: options.node }),
        ...(options.server === true ? { server: true as const } : {}),
      });
    });
    const caFingerprint = plainFingerprint(issuer.caFingerprint);
    return { token: formatJoinToken({ id, secret, caFingerprint }), expiresAt };
  }

  async join(request: JoinRequest): Promise<IssuedIdentity> {
    const { records, clock, issuer } = this.#deps;
    const token = parseJoinToken(request.token);
    if (token === undefined) throw new AppError("auth.failed", REFUSED);
    checkTarget(request);
    const keyFingerprint = await issuer.keyFingerprint(request.csrPem);
    // Judge before signing, so that a bad token costs no certificate; judge again where it counts.
    await records.fresh();
    await records.transact((tx) => this.#judge(tx, token, request, keyFingerprint));
    const issued = await issuer.issueAgent(request.csrPem, request.node);
    await records.transact((tx) => {
      const { record, existing } = this.#judge(tx, token, request, keyFingerprint);
      tx.put(joinTokens, record.id, { ...record, usedBy: { node: request.node, keyFingerprint } });
      tx.put(nodeRecords, request.node, {
        name: request.node,
        nodeid: existing?.nodeid ?? nextNodeId(tx),
        address: request.address,
        port: request.port,
        certFingerprint: issued.fingerprint,
        joinedAt: existing?.joinedAt ?? clock.now(),
        labels: existing?.labels ?? {},
        taints: existing?.taints ?? [],
        ...given({ unschedulable: existing?.unschedulable }),
      });
    });
    return { certPem: issued.certPem, caPem: issuer.caPem };
  }

  /** A further server: its token is good for one, and is used up by it. */
  async admitServer(request: { readonly token: string; readonly name: string }): Promise<void> {
    const { records } = this.#deps;
    const token = parseJoinToken(request.token);
    if (token === undefined) throw new AppError("auth.failed", REFUSED);
    if (!isNodeName(request.name))
      throw new AppError(
        "request.invalid",
        `${JSON.stringify(request.name)} is not a valid name of a machine`,
      );
    await records.fresh();
    const judge = (tx: Tx): JoinTokenRecord => {
      const record = this.#good(tx, token);
      if (record?.server !== true || record.usedBy !== undefined) throw new AppError("auth.failed", REFUSED);
      requireName(record, request.name);
      return record;
    };
    // Only who has a good token learns which names are taken; and it stays good for another name.
    await records.transact((tx) => void judge(tx));
    if (await this.#deps.serves(request.name))
      throw new AppError(
        "object.exists",
        `a server named ${request.name} runs in this cluster: choose another name (--node), or stop that one first`,
      );
    await records.transact((tx) => {
      const record = judge(tx);
      tx.put(joinTokens, record.id, { ...record, usedBy: { node: request.name, keyFingerprint: "" } });
    });
  }

  /** The node a certificate stands for. Removed nodes and replaced certificates are not members. */
  member(node: string, fingerprint: string): NodeRecord | undefined {
    const record = this.#deps.records.collection(nodeRecords).get(node)?.value;
    return record !== undefined && isOwn(record, fingerprint) ? record : undefined;
  }

  isMember(peer: { readonly node: string; readonly fingerprint: string } | undefined): boolean {
    return peer !== undefined && this.member(peer.node, peer.fingerprint) !== undefined;
  }

  /** Notes where the node is now, and that its new certificate arrived. */
  async hello(node: string, fingerprint: string, address: string, port: number): Promise<void> {
    checkTarget({ node, address, port });
    const record = this.#deps.records.collection(nodeRecords).get(node)?.value;
    if (record === undefined)
      throw new AppError("access.denied", `node ${node} is not a member of this cluster`);
    const settled = record.previousFingerprint === undefined || fingerprint !== record.certFingerprint;
    if (record.address === address && record.port === port && settled) return;
    await this.#deps.records.transact((tx) => {
      const current = tx.get(nodeRecords, node)?.value;
      if (current === undefined)
        throw new AppError("access.denied", `node ${node} is not a member of this cluster`);
      const { previousFingerprint: previous, ...rest } = current;
      const keepOld = previous !== undefined && fingerprint !== current.certFingerprint;
      tx.put(nodeRecords, node, {
        ...rest,
        address,
        port,
        ...(keepOld ? { previousFingerprint: previous } : {}),
      });
    });
  }

  async renew(node: string, fingerprint: string, csrPem: string): Promise<IssuedIdentity> {
    const { records, issuer } = this.#deps;
    // Judge before signing; judge again where it counts: it may be removed, or joined anew, in between.
    requireOwn(records.collection(nodeRecords).get(node)?.value, node, fingerprint);
    const issued = await issuer.issueAgent(csrPem, node);
    await records.transact((tx) => {
      const current = requireOwn(tx.get(nodeRecords, node)?.value, node, fingerprint);
      tx.put(nodeRecords, node, {
        ...current,
        certFingerprint: issued.fingerprint,
        previousFingerprint: fingerprint,
      });
    });
    return { certPem: issued.certPem, caPem: issuer.caPem };
  }

  /** Puts the agent of this very process into the records; needs no token and no network. */
  async enrolLocal(node: string, address: string, port: number, certFingerprint: string): Promise<void> {
    checkTarget({ node, address, port });
    this.#ownNode = node;
    await this.#deps.records.transact((tx) => {
      const existing = tx.get(nodeRecords, node)?.value;
      if (
        existing?.address === address &&
        existing.port === port &&
        existing.certFingerprint === certFingerprint
      ) {
        return;
      }
      tx.put(nodeRecords, node, {
        name: node,
        nodeid: existing?.nodeid ?? nextNodeId(tx),
        address,
        port,
        certFingerprint,
        joinedAt: existing?.joinedAt ?? this.#deps.clock.now(),
        labels: existing?.labels ?? {},
        taints: existing?.taints ?? [],
        ...given({ unschedulable: existing?.unschedulable }),
      });
    });
  }

  /** The node that is a part of this very process; it came by no token and cannot be removed here. */
  ownNode(): string | undefined {
    return this.#ownNode;
  }

  async remove(node: string, force = false): Promise<void> {
    await this.#deps.records.transact((tx) => removeNode(tx, { node, force, ownNode: this.#ownNode }));
  }

  #good(tx: Tx, token: { id: string; secret: string }): JoinTokenRecord | undefined {
    const record = tx.get(joinTokens, token.id)?.value;
    const good =
      record !== undefined &&
      record.expiresAt > this.#deps.clock.now() &&
      timingSafeEqual(Buffer.from(record.hash, "hex"), Buffer.from(sha256(token.secret), "hex"));
    return good ? record : undefined;
  }

  #judge(tx: Tx, token: { id: string; secret: string }, request: JoinRequest, keyFingerprint: string) {
    const record = this.#good(tx, token);
    if (record === undefined || record.server === true) throw new AppError("auth.failed", REFUSED);
    const repeat = record.usedBy?.node === request.node && record.usedBy.keyFingerprint === keyFingerprint;
    if (record.usedBy !== undefined && !repeat) throw new AppError("auth.failed", REFUSED);
    requireName(record, request.node);
    const existing = tx.get(nodeRecords, request.node)?.value;
    if (existing !== undefined && record.node === undefined && !repeat) {
      throw new AppError(
        "object.exists",
        `a node named ${request.node} is already in the cluster: choose another name, remove it first, ` +
          `or make a join token for exactly this node to let it take its place`,
      );
    }
    // Who repeats a join has the key that it was for: that is no other machine.
    if (!repeat) this.#living.requireGone(tx, request.node);
    return { record, existing };
  }
}

function requireName(record: JoinTokenRecord, name: string): void {
  if (record.node === undefined || record.node === name) return;
  throw new AppError("access.denied", `this join token is for node ${record.node}, not for ${name}`);
}

function isOwn(record: NodeRecord, fingerprint: string): boolean {
  return fingerprint === record.certFingerprint || fingerprint === record.previousFingerprint;
}

function requireOwn(record: NodeRecord | undefined, node: string, fingerprint: string): NodeRecord {
  if (record !== undefined && isOwn(record, fingerprint)) return record;
  throw new AppError(
    "access.denied",
    `node ${node} is not a member of this cluster, or has a newer certificate: join it again`,
  );
}

function nextNodeId(tx: Tx): number {
  return Math.max(0, ...tx.list(nodeRecords).map((entry) => entry.value.nodeid)) + 1;
}

function checkTarget(target: { node: string; address: string; port: number }): void {
  if (!isNodeName(target.node)) {
    throw new AppError("request.invalid", `${JSON.stringify(target.node)} is not a valid node name`);
  }
  if (!/^[A-Za-z0-9.:_-]{1,255}$/.test(target.address)) {
    throw new AppError("request.invalid", `${JSON.stringify(target.address)} is not a valid agent address`);
  }
  if (!Number.isInteger(target.port) || target.port < 1 || target.port > 65_535) {
    throw new AppError("request.invalid", `${target.port} is not a valid agent port`);
  }
}

function sha256(value: string): string {
  return createHash("sha256").update(value).digest("hex");
}
