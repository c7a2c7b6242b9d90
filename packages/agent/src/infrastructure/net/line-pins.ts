// Keeps a line to its guest in the kernel: what has the line's mark leaves the node by that device, and the bridge by the
// guest's taps, or not at all. So it does not matter what the guest makes the node believe of addresses and MAC addresses
// between a look and the next packet. Tables of our own, replaced as a whole in one transaction.
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export interface Pin {
  readonly mark: number;
  /** What packets are sent on: the bridge, or a VLAN of it. */
  readonly device: string;
  /** Ports of the bridge that they may leave it by. */
  readonly taps: readonly string[];
}

export interface LinePinsOptions {
  readonly exec: Exec;
  readonly table: string;
  readonly random: (bytes: number) => Uint8Array;
}

const FAMILIES = ["bridge", "inet"] as const;

export class LinePins {
  readonly #options: LinePinsOptions;
  readonly #pins = new Map<number, Pin>();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: LinePinsOptions) {
    this.#options = options;
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

  /** Makes the kernel have what we have; one after the other, each with everything. */
  ensure(): Promise<void> {
    const write = this.#writing.then(() => this.#write());
    this.#writing = write.catch((err: unknown) => ignore(err, "told to whoever wanted it"));
    return write;
  }

  /** Others may have loaded a firewall of their own. */
  async isWhole(): Promise<boolean> {
    if (this.#pins.size === 0) return true;
    try {
      const { exec, table } = this.#options;
      for (const family of FAMILIES) {
        const { stdout } = await exec("nft", ["list", "table", family, table]);
        if (!stdout.includes("chain out {")) return false;
        if (![...this.#pins.values()].every(({ mark }) => stdout.includes(hex(mark)))) return false;
      }
      return true;
    } catch (err) {
      ignore(err, `no table: ${messageOf(err)}`);
      return false;
    }
  }

  async #write(): Promise<void> {
    const { exec, table } = this.#options;
    const pins = [...this.#pins.values()];
    if (pins.length > 0) await exec("nft", pinCommands(table, pins));
    else await removeLinePins(this.#options);
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
      // Adding first makes the deletion succeed also when there was none.
      `add table ${own};`,
      `delete table ${own};`,
      `add table ${own};`,
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

export async function removeLinePins({
  exec,
  table,
}: Pick<LinePinsOptions, "exec" | "table">): Promise<void> {
  const { stdout } = await exec("nft", ["list", "tables"]);
  const there = stdout.split("\n");
  for (const family of FAMILIES)
    if (there.includes(`table ${family} ${table}`)) await exec("nft", ["delete", "table", family, table]);
}

/** As nft lists them. */
function hex(mark: number): string {
  return `0x${mark.toString(16).padStart(8, "0")}`;
}
