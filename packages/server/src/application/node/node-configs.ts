// What operators note of a node: a description, where it stands, and how it is woken. Kept here, so that it is also there
// while the node is away.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { WakePacket } from "@gpve/domain/node/wake-packet.ts";
import { conflict, missing, refused } from "@gpve/domain/request/failures.ts";
import { parsePropertyString, type PropertyRecord } from "@gpve/domain/schema/check.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "./collections.ts";

export type NodeConfig = Readonly<Record<string, string | number>>;

export const nodeConfigCollection: CollectionDef<NodeConfig> = {
  prefix: "/gpve/node-configs/",
  decode: (json) => json as NodeConfig,
};

/** Everything else would be noted and never heeded. */
const HEEDED = ["description", "location", "wakeonlan"];

export interface NodeConfigChange {
  readonly set: NodeConfig;
  readonly remove: readonly string[];
  readonly digest: string | undefined;
}

export class NodeConfigs {
  readonly #records: Records;
  readonly #localNode: string;
  readonly #send: (packet: WakePacket) => Promise<void>;

  constructor(deps: {
    readonly records: Records;
    readonly localNode: string;
    readonly send: (packet: WakePacket) => Promise<void>;
  }) {
    this.#records = deps.records;
    this.#localNode = deps.localNode;
    this.#send = deps.send;
  }

  /** As GET /nodes/{node}/config answers; `property` asks for one of them. */
  show(node: string, property?: string): Record<string, unknown> {
    const config = this.#read(node);
    if (config === undefined) return {};
    if (property !== undefined)
      return config[property] === undefined ? {} : { [property]: shown(property, config[property]) };
    const all = Object.entries(config).map(([key, value]) => [key, shown(key, value)] as const);
    return { ...Object.fromEntries(all), digest: digestOf(config) };
  }

  async update(node: string, { set, remove, digest }: NodeConfigChange, signal?: AbortSignal): Promise<void> {
    const unheeded = Object.keys(set).find((key) => !HEEDED.includes(key));
    if (unheeded !== undefined) {
      throw new AppError(
        "feature.unsupported",
        `cannot set '${unheeded}' of node '${node}': gpve does not heed it; ${HEEDED.join(", ")} can be set`,
        { pveStatus: 501 },
      );
    }
    await this.#records.transact((tx) => {
      if (!tx.has(nodeRecords, node)) throw missing(`no such cluster node '${node}'\n`);
      const before = tx.get(nodeConfigCollection, node)?.value ?? {};
      if (digest !== undefined && digest !== "" && digest !== digestOf(before))
        throw conflict("detected modified configuration - file changed by other user? Try again.\n");
      const kept = Object.entries({ ...before, ...set }).filter(([key]) => !remove.includes(key));
      if (kept.length === 0) tx.delete(nodeConfigCollection, node);
      else tx.put(nodeConfigCollection, node, Object.fromEntries(kept));
    }, given({ signal }));
  }

  /** The MAC address that the packet is for. */
  async wake(node: string): Promise<string> {
    if (node === "localhost" || node === this.#localNode)
      throw refused(`'${node}' is local node, cannot wake my self!\n`);
    if (this.#records.collection(nodeRecords).get(node) === undefined)
      throw missing(`no such cluster node '${node}'\n`);
    const { mac } = wakeOptions(this.#read(node));
    if (mac === undefined) throw refused(`No wake on LAN MAC address defined for '${node}'!\n`);
    // How it gets out of here is this node's own affair.
    const own = wakeOptions(this.#read(this.#localNode));
    await this.#send({
      bytes: magicPacket(String(mac)),
      broadcast: String(own["broadcast-address"] ?? "255.255.255.255"),
      iface: own["bind-interface"] === undefined ? undefined : String(own["bind-interface"]),
    });
    return String(mac);
  }

  #read(node: string): NodeConfig | undefined {
    return this.#records.collection(nodeConfigCollection).get(node)?.value;
  }
}

/** Six bytes of ones, then the address sixteen times. */
export function magicPacket(mac: string): Uint8Array {
  const address = Buffer.from(mac.replaceAll(/[^0-9A-Fa-f]/g, ""), "hex");
  return Buffer.concat([Buffer.alloc(6, 0xff), ...Array.from({ length: 16 }, () => address)]);
}

/** PVE keeps a description as lines, each with its end. */
function shown(key: string, value: string | number): string | number {
  return key === "description" && value !== "" && !String(value).endsWith("\n") ? `${value}\n` : value;
}

function wakeOptions(config: NodeConfig | undefined): PropertyRecord {
  const text = config?.["wakeonlan"];
  const schema = methodByKey("PUT /nodes/{node}/config")?.parameters["wakeonlan"]?.format;
  if (typeof text !== "string" || schema === undefined || typeof schema === "string") return {};
  const result = parsePropertyString(schema, text);
  return result.ok ? result.value : {};
}

function digestOf(config: NodeConfig): string {
  const lines = Object.entries(config)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
  return createHash("sha1").update(lines.join("")).digest("hex");
}
