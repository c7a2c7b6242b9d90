// `firewall=1` of a card: the guest sends with the card's own MAC address and no other, as with PVE's `macfilter`. One nft
// table of the bridge family for all cards of an instance, replaced as a whole in one transaction. Cards are matched by
// the name of their tap, so the filter is there before the tap is.
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface FilteredCard {
  readonly vmid: number;
  readonly tap: string;
  readonly mac: string;
}

export interface MacFilterOptions {
  readonly exec: Exec;
  /** The table's name. */
  readonly table: string;
}

/** Frames to link-local addresses (STP, LLDP) pass no prerouting hook, and teach the bridge addresses all the same. */
const CHAINS = { forwarded: "prerouting", local: "input" } as const;

export class MacFilter {
  readonly #options: MacFilterOptions;
  /** What must hold. */
  readonly #cards = new Map<string, FilteredCard>();
  /** What the kernel took last; undefined = it refused, and nobody knows. */
  #kept: ReadonlySet<FilteredCard> | undefined = new Set();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: MacFilterOptions) {
    this.#options = options;
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

  /** Makes the kernel have what we have; one after the other, each with everything. */
  ensure(): Promise<void> {
    const write = this.#writing.then(() => this.#write());
    this.#writing = write.catch((err: unknown) => ignore(err, "told to whoever wanted it"));
    return write;
  }

  /** Whether the kernel has all of it; others may have loaded a firewall of their own. */
  async isWhole(): Promise<boolean> {
    if (this.#kept === undefined) return false;
    if (this.#cards.size === 0) return true;
    try {
      const { stdout } = await this.#options.exec("nft", ["list", "table", "bridge", this.#options.table]);
      const rules = Object.keys(CHAINS).every((name) => stdout.includes(`chain ${name} {`));
      return rules && [...this.#cards.values()].every((card) => stdout.includes(element(card)));
    } catch (err) {
      ignore(err, `no table: ${messageOf(err)}`);
      return false;
    }
  }

  async #write(): Promise<void> {
    const { exec, table } = this.#options;
    const cards = [...this.#cards.values()];
    try {
      if (cards.length === 0) await removeMacFilter(this.#options);
      else await exec("nft", macFilterCommands(table, cards));
      this.#kept = new Set(cards);
    } catch (err) {
      this.#kept = undefined;
      throw err;
    }
  }
}

/** No argument grows with the number of cards: the kernel takes no argument of more than 128 KiB. */
export function macFilterCommands(table: string, cards: readonly FilteredCard[]): string[] {
  const own = `bridge ${table}`;
  return [
    // Adding first makes the deletion succeed also when there was none.
    `add table ${own};`,
    `delete table ${own};`,
    `add table ${own};`,
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

export async function removeMacFilter({ exec, table }: MacFilterOptions): Promise<void> {
  const { stdout } = await exec("nft", ["list", "tables", "bridge"]);
  if (stdout.split("\n").includes(`table bridge ${table}`))
    await exec("nft", ["delete", "table", "bridge", table]);
}

function element({ tap, mac }: FilteredCard): string {
  return `"${tap}" . ${mac.toLowerCase()}`;
}
