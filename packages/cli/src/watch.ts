// --watch for lists: ask again and show what changed.
import { isDeepStrictEqual } from "node:util";
import type { Cli, OptionSpec } from "./command.ts";
import { durationSeconds, type Input } from "./input.ts";
import type { TableColumn } from "./output/table.ts";

export const watchOptions: readonly OptionSpec[] = [
  { flags: "-w, --watch", about: "keep showing changes until Ctrl-C" },
  { flags: "--interval <duration>", about: "with --watch: how often to look (2s)", parse: durationSeconds },
];

const CLEAR = "\u001b[H\u001b[J";

/** Prints rows once, or with --watch again whenever they differ. */
export async function showRows(
  cli: Cli,
  input: Input,
  columns: readonly TableColumn[],
  whenEmpty: string,
  fetch: () => Promise<readonly unknown[]>,
): Promise<void> {
  if (!input.flag("watch")) {
    cli.out.rows(await fetch(), columns, whenEmpty);
    return;
  }
  const intervalMs = (input.number("interval") ?? 2) * 1000;
  let before: readonly unknown[] | undefined;
  while (!cli.signal.aborted) {
    const rows = await fetch();
    if (before === undefined || !isDeepStrictEqual(before, rows)) {
      if (!cli.out.forPeople) cli.out.data(rows, { compact: true });
      else {
        if (cli.io.stdout.isTTY) cli.out.text(CLEAR);
        else if (before !== undefined) cli.out.line();
        cli.out.rows(rows, columns, whenEmpty);
      }
      before = rows;
    }
    // Ctrl-C while waiting is the normal end.
    await cli.io.clock.sleep(intervalMs, cli.signal).catch(() => undefined);
  }
}
