// nft tables of our own, each replaced as a whole in one transaction, so that what the kernel has is what was wanted last.
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export type TableFamily = "bridge" | "inet";

export interface OwnTablesOptions {
  readonly exec: Exec;
  readonly table: string;
}

export class OwnTables<Item> {
  readonly #options: OwnTablesOptions;
  readonly #families: readonly TableFamily[];
  /** What the tables are for; without any they go. */
  readonly #wanted: () => Iterable<Item>;
  readonly #commands: (wanted: readonly Item[]) => readonly string[];
  #writing: Promise<unknown> = Promise.resolve();

  constructor(
    options: OwnTablesOptions,
    families: readonly TableFamily[],
    wanted: () => Iterable<Item>,
    commands: (wanted: readonly Item[]) => readonly string[],
  ) {
    this.#options = options;
    this.#families = families;
    this.#wanted = wanted;
    this.#commands = commands;
  }

  /** Makes the kernel have what is wanted, and says what that was; one after the other, each with everything. */
  ensure(): Promise<readonly Item[]> {
    const write = this.#writing.then(() => this.#write());
    this.#writing = write.catch((err: unknown) => ignore(err, "told to whoever wanted it"));
    return write;
  }

  /** Whether every table has all of these texts; others may have loaded a firewall of their own. */
  async have(texts: readonly string[]): Promise<boolean> {
    const { exec, table } = this.#options;
    try {
      for (const family of this.#families) {
        const { stdout } = await exec("nft", ["list", "table", family, table]);
        if (!texts.every((text) => stdout.includes(text))) return false;
      }
      return true;
    } catch (err) {
      ignore(err, `no table: ${messageOf(err)}`);
      return false;
    }
  }

  async #write(): Promise<readonly Item[]> {
    const wanted = [...this.#wanted()];
    if (wanted.length === 0) await removeTables(this.#options, this.#families);
    else await this.#options.exec("nft", this.#commands(wanted));
    return wanted;
  }
}

/** What begins a transaction that replaces a table. Adding first makes the deletion succeed also when there was none. */
export function emptied(own: string): string[] {
  return [`add table ${own};`, `delete table ${own};`, `add table ${own};`];
}

/** Also those of an agent before this one. */
export async function removeTables(
  { exec, table }: OwnTablesOptions,
  families: readonly TableFamily[],
): Promise<void> {
  const { stdout } = await exec("nft", ["list", "tables"]);
  const there = stdout.split("\n");
  for (const family of families)
    if (there.includes(`table ${family} ${table}`)) await exec("nft", ["delete", "table", family, table]);
}
