// Keeps a line to its guest in the kernel: what has the line's mark leaves the node by that device, and the bridge by the
// guest's taps, or not at all. So it does not matter what the guest makes the node believe of addresses and MAC addresses
// between a look and the next packet. Tables of our own, replaced as a whole in one transaction.
import { natTableName } from "../nat/nat-table.ts";
import { emptied, OwnTables, type OwnTablesOptions, removeTables } from "../filter/own-tables.ts";

export interface Pin {
  readonly mark: number;
  /** What packets are sent on: the bridge, or a VLAN of it. */
  readonly device: string;
  /** Ports of the bridge that they may leave it by. */
  readonly taps: readonly string[];
}

export interface LinePinsOptions extends OwnTablesOptions {
  readonly random: (bytes: number) => Uint8Array;
}

const FAMILIES = ["bridge", "inet"] as const;

export class LinePins {
  readonly #options: LinePinsOptions;
  readonly #pins = new Map<number, Pin>();
  readonly #tables: OwnTables<Pin>;

  constructor(options: LinePinsOptions) {
    this.#options = options;
    this.#tables = new OwnTables(
      options,
      FAMILIES,
      () => this.#pins.values(),
      (pins) => pinCommands(options.table, pins),
    );
  }

  /** Resolves when the kernel has it: nothing may be sent before. */
  async add(device: string, taps: readonly string[]): Promise<Pin> {
    const pin = { mark: this.#freeMark(), device, taps };
    this.#pins.set(pin.mark, pin);
    try {
      await this.ensure();
      return pin;
    } catch (err) {
      this.#pins.delete(pin.mark);
      throw err;
    }
  }

  /** When nothing has the mark any more. */
  async remove({ mark }: Pin): Promise<void> {
    if (this.#pins.delete(mark)) await this.ensure();
  }

  /** What an agent before this one left behind. */
  async sweep(): Promise<void> {
    if (this.#pins.size === 0) await this.ensure();
  }

  async ensure(): Promise<void> {
    await this.#tables.ensure();
  }

  async isWhole(): Promise<boolean> {
    const marks = [...this.#pins.keys()].map(hex);
    return marks.length === 0 || this.#tables.have(["chain out {", ...marks]);
  }

  /** Bits that neither Kubernetes' proxy nor what is known of others on hosts gives a meaning to. */
  #freeMark(): number {
    for (;;) {
      const [high = 0, low = 0] = this.#options.random(2);
      const mark = high * 2 ** 24 + low;
      if (high !== 0 && low !== 0 && !this.#pins.has(mark)) return mark;
    }
  }
}

/** No argument grows with the number of lines: the kernel takes no argument of more than 128 KiB. */
export function pinCommands(table: string, pins: readonly Pin[]): string[] {
  return FAMILIES.flatMap((family) => {
    const own = `${family} ${table}`;
    return [
      ...emptied(own),
      `add set ${own} lines { type mark; };`,
      `add set ${own} ways { type mark . ifname; };`,
      `add chain ${own} out { type filter hook output priority -200; policy accept; };`,
      `add rule ${own} out meta mark @lines meta mark . oifname != @ways counter drop;`,
      ...pins.flatMap(({ mark, device, taps }) => [
        `add element ${own} lines { ${hex(mark)} };`,
        ...(family === "bridge" ? taps : [device]).map(
          (way) => `add element ${own} ways { ${hex(mark)} . "${way}" };`,
        ),
      ]),
    ];
  });
}

export function linesTableName(instanceId: string): string {
  return `${natTableName(instanceId)}_lines`;
}

export function removeLinePins(options: OwnTablesOptions): Promise<void> {
  return removeTables(options, FAMILIES);
}

/** As nft lists them. */
function hex(mark: number): string {
  return `0x${mark.toString(16).padStart(8, "0")}`;
}
