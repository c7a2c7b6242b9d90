// Bridges of all nodes, one object for each name, with the VLANs that guests' cards have on it.
import { networkKind } from "@gpve/contracts/v1/kinds/network.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import { byName, type KindAdapter, type RawObject, type Reader } from "../adapter.ts";

export function networkAdapter({ board }: { readonly board: NodeBoard }): KindAdapter {
  const all = (reader: Reader): readonly RawObject[] => {
    const nodes = nodesOfBridges(board);
    const used = useOfBridges(reader);
    return [...nodes].map(([name, rows]) => raw(name, rows, used.get(name))).toSorted(byName);
  };
  return {
    kind: networkKind,
    collections: [nodeRecords as CollectionDef<unknown>, guestCollection as CollectionDef<unknown>],
    list: all,
    get: (reader, name) => all(reader).find((network) => network.name === name),
    onChange: (records, changed) => {
      const every = (): void => changed([...nodesOfBridges(board).keys()]);
      const stops = [
        records.collection(nodeRecords).onChange(every),
        records.collection(guestCollection).onChange((_id, after, before) => {
          const cards = [after, before].flatMap((entry) => (entry === undefined ? [] : cardsOf(entry.value)));
          changed([...new Set(cards.map(({ bridge }) => bridge))]);
        }),
      ];
      return () => stops.forEach((stop) => stop());
    },
  };
}

function raw(name: string, nodes: readonly Fields[], use: Use | undefined): RawObject {
  const status = {
    nodes,
    vlans: [...(use?.vlans ?? [])].toSorted((a, b) => a - b),
    guests: use?.guests ?? 0,
  };
  return { name, spec: {}, status, revision: 0, createRevision: 0, generation: 1 };
}

function nodesOfBridges(board: NodeBoard): ReadonlyMap<string, readonly Fields[]> {
  const found = new Map<string, Fields[]>();
  for (const { node, facts } of board.list()) {
    for (const bridge of facts?.bridges ?? []) {
      const seen = facts?.networks?.find(({ name }) => name === bridge);
      const { name: _name, ...rest } = seen ?? { name: bridge };
      const row = { node, ...given({ ...rest }) };
      found.set(bridge, [...(found.get(bridge) ?? []), row]);
    }
  }
  return found;
}

interface Use {
  readonly vlans: Set<number>;
  guests: number;
}

function useOfBridges(reader: Reader): ReadonlyMap<string, Use> {
  const found = new Map<string, Use>();
  for (const { value } of reader.list(guestCollection)) {
    const seen = new Set<string>();
    for (const { bridge, vlans } of cardsOf(value)) {
      const use = found.get(bridge) ?? { vlans: new Set<number>(), guests: 0 };
      found.set(bridge, use);
      for (const vlan of vlans) use.vlans.add(vlan);
      if (!seen.has(bridge)) use.guests += 1;
      seen.add(bridge);
    }
  }
  return found;
}

interface Card {
  readonly bridge: string;
  readonly vlans: readonly number[];
}

/** By the record itself, which is another one when it changes. */
const cards = new WeakMap<GuestRecord, readonly Card[]>();

function cardsOf(record: GuestRecord): readonly Card[] {
  const known = cards.get(record);
  if (known !== undefined) return known;
  const current = record.conf.split(/^\[/m, 1)[0] ?? "";
  const found = [...current.matchAll(/^net\d+: *(.*)$/gm)].flatMap(([, text = ""]) => {
    const options = new Map(text.split(",").map((part) => splitPair(part)));
    const bridge = options.get("bridge");
    if (bridge === undefined) return [];
    const tags = [options.get("tag"), ...(options.get("trunks") ?? "").split(";")];
    const vlans = tags.map(Number).filter((tag) => Number.isInteger(tag) && tag > 0);
    return [{ bridge, vlans }];
  });
  cards.set(record, found);
  return found;
}

function splitPair(part: string): readonly [string, string] {
  const at = part.indexOf("=");
  return at === -1 ? [part.trim(), ""] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
}
