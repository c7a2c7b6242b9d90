// `firewall=1` of a card: the guest sends with the card's own MAC address and no other, as with PVE's `macfilter`. One nft
// table of the bridge family for all cards of an instance, replaced as a whole in one transaction. Cards are matched by
// the name of their tap, so the filter is there before the tap is.
import { emptied, OwnTables, type OwnTablesOptions, removeTables } from "./own-tables.ts";

export interface FilteredCard {
  readonly vmid: number;
  readonly tap: string;
  readonly mac: string;
}

/** Frames to link-local addresses (STP, LLDP) pass no prerouting hook, and teach the bridge addresses all the same. */
const CHAINS = { forwarded: "prerouting", local: "input" } as const;
const FAMILIES = ["bridge"] as const;

export class MacFilter {
  readonly #options: OwnTablesOptions;
  readonly #tables: OwnTables<FilteredCard>;
  /** What must hold. */
  readonly #cards = new Map<string, FilteredCard>();
  /** What the kernel took last; undefined = it refused, and nobody knows. */
  #kept: ReadonlySet<FilteredCard> | undefined = new Set();

  constructor(options: OwnTablesOptions) {
    this.#options = options;
    this.#tables = new OwnTables(
      options,
      FAMILIES,
      () => this.#cards.values(),
      (cards) => macFilterCommands(options.table, cards),
    );
  }

  /** Resolves when the kernel has it. When it refuses, the card is as before: it has not come, or is filtered as it was. */
  async add(card: FilteredCard): Promise<void> {
    const before = this.#cards.get(card.tap);
    this.#cards.set(card.tap, card);
    try {
      await this.ensure();
    } catch (err) {
      if (this.#cards.get(card.tap) === card) {
        if (before === undefined) this.#cards.delete(card.tap);
        else this.#cards.set(card.tap, before);
      }
      throw err;
    }
  }

  /** Cards that send already: what the kernel refuses now is written with the next change, or by who keeps the filter whole. */
  async adopt(cards: readonly FilteredCard[]): Promise<void> {
    for (const card of cards) this.#cards.set(card.tap, card);
    if (cards.length > 0) await this.ensure();
  }

  async remove(wanted: (card: FilteredCard) => boolean): Promise<void> {
    const gone = [...this.#cards.values()].filter(wanted);
    for (const { tap } of gone) this.#cards.delete(tap);
    if (gone.length > 0) await this.ensure();
  }

  /** Also of cards that nobody here knows: an agent before this one made them. */
  async sweep(): Promise<void> {
    if (this.#cards.size === 0) await removeMacFilter(this.#options);
  }

  /** Whether the kernel filters it, as far as we know. */
  has(tap: string): boolean {
    const card = this.#cards.get(tap);
    return card !== undefined && this.#kept?.has(card) === true;
  }

  async ensure(): Promise<void> {
    try {
      this.#kept = new Set(await this.#tables.ensure());
    } catch (err) {
      this.#kept = undefined;
      throw err;
    }
  }

  /** Whether the kernel has all of it; others may have loaded a firewall of their own. */
  async isWhole(): Promise<boolean> {
    if (this.#kept === undefined) return false;
    const chains = Object.keys(CHAINS).map((name) => `chain ${name} {`);
    const cards = [...this.#cards.values()].map(element);
    return cards.length === 0 || this.#tables.have([...chains, ...cards]);
  }
}

/** No argument grows with the number of cards: the kernel takes no argument of more than 128 KiB. */
export function macFilterCommands(table: string, cards: readonly FilteredCard[]): string[] {
  const own = `bridge ${table}`;
  return [
    ...emptied(own),
    `add set ${own} filtered { type ifname; };`,
    `add set ${own} allowed { type ifname . ether_addr; };`,
    ...Object.entries(CHAINS).flatMap(([name, hook]) => [
      `add chain ${own} ${name} { type filter hook ${hook} priority -200; policy accept; };`,
      `add rule ${own} ${name} iifname @filtered iifname . ether saddr != @allowed counter drop;`,
    ]),
    ...cards.flatMap((card) => [
      `add element ${own} filtered { "${card.tap}" };`,
      `add element ${own} allowed { ${element(card)} };`,
    ]),
  ];
}

export function removeMacFilter(options: OwnTablesOptions): Promise<void> {
  return removeTables(options, FAMILIES);
}

function element({ tap, mac }: FilteredCard): string {
  return `"${tap}" . ${mac.toLowerCase()}`;
}
