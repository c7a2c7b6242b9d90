// What the cluster keeps about a joined node, and about invitations to join. Pure.

export interface NodeRecord {
  readonly name: string;
  /** PVE's nodeid: small, unique, never reused while the node exists. */
  readonly nodeid: number;
  /** Where servers reach the agent. */
  readonly address: string;
  readonly port: number;
  readonly certFingerprint: string;
  /** Still good until the node is seen with the new one: an answer with a new certificate may get lost. */
  readonly previousFingerprint?: string;
  readonly joinedAt: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly string[];
  /** Cordoned: nothing new is placed there. */
  readonly unschedulable?: true;
}

export interface JoinTokenRecord {
  readonly id: string;
  /** SHA-256 of the secret, hex. The secret itself has 256 random bits and is shown once. */
  readonly hash: string;
  readonly expiresAt: number;
  readonly createdBy: string;
  /** Only this node may use it; it may then also take the place of a node of that name. */
  readonly node?: string;
  /** For a further server of the cluster, not for a node. */
  readonly server?: true;
  /** Set by the first use. The same key may repeat the join, in case the answer got lost. */
  readonly usedBy?: { readonly node: string; readonly keyFingerprint: string };
}

export function decodeNodeRecord(json: unknown): NodeRecord {
  const row = asRow(json, "node");
  return {
    name: text(row, "name"),
    nodeid: number(row, "nodeid"),
    address: text(row, "address"),
    port: number(row, "port"),
    certFingerprint: text(row, "certFingerprint"),
    ...(typeof row["previousFingerprint"] === "string"
      ? { previousFingerprint: row["previousFingerprint"] }
      : {}),
    joinedAt: number(row, "joinedAt"),
    labels: (row["labels"] ?? {}) as Readonly<Record<string, string>>,
    taints: (row["taints"] ?? []) as readonly string[],
    ...(row["unschedulable"] === true ? { unschedulable: true as const } : {}),
  };
}

export function decodeJoinToken(json: unknown): JoinTokenRecord {
  const row = asRow(json, "join token");
  const used = row["usedBy"];
  return {
    id: text(row, "id"),
    hash: text(row, "hash"),
    expiresAt: number(row, "expiresAt"),
    createdBy: text(row, "createdBy"),
    ...(typeof row["node"] === "string" ? { node: row["node"] } : {}),
    ...(row["server"] === true ? { server: true as const } : {}),
    ...(used === undefined ? {} : { usedBy: decodeUse(used) }),
  };
}

/** PVE's rule for node names: a DNS label. */
export function isNodeName(name: string): boolean {
  return /^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/.test(name);
}

export interface JoinToken {
  readonly id: string;
  readonly secret: string;
  /** SHA-256 of the CA's certificate, lower-case hex without colons. */
  readonly caFingerprint: string;
}

/** "gpve-join.<id>.<secret>.<ca fingerprint>": one string to carry from a server to a new node. */
export function formatJoinToken(token: JoinToken): string {
  return `gpve-join.${token.id}.${token.secret}.${token.caFingerprint}`;
}

export function parseJoinToken(value: string): JoinToken | undefined {
  const match = /^gpve-join\.([a-z0-9]{4,32})\.([A-Za-z0-9_-]{43})\.([0-9a-f]{64})$/.exec(value.trim());
  if (match === null) return undefined;
  const [, id = "", secret = "", caFingerprint = ""] = match;
  return { id, secret, caFingerprint };
}

/** "AA:BB:.." -> "aabb.." */
export function plainFingerprint(fingerprint: string): string {
  return fingerprint.replaceAll(":", "").toLowerCase();
}

/** Where the records layer of a node's agent keeps its marks: a part of the key space only that node may write. */
export function agentCorner(node: string): string {
  return `node-${node}`;
}

function decodeUse(json: unknown): { node: string; keyFingerprint: string } {
  const row = asRow(json, "use of a join token");
  return { node: text(row, "node"), keyFingerprint: text(row, "keyFingerprint") };
}

function asRow(json: unknown, what: string): Record<string, unknown> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw new Error(`stored ${what} is not an object`);
  }
  return json as Record<string, unknown>;
}

function text(row: Record<string, unknown>, key: string): string {
  const value = row[key];
  if (typeof value !== "string") throw new Error(`stored ${key} is not a text`);
  return value;
}

function number(row: Record<string, unknown>, key: string): number {
  const value = row[key];
  if (typeof value !== "number") throw new Error(`stored ${key} is not a number`);
  return value;
}
