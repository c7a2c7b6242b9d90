// Calls that may answer with a task: wait for it with a progress line, or print its UPID.
import { isUpid } from "@gpve/client/task-wait.ts";
import type { Cli, OptionSpec } from "./command.ts";
import type { Input } from "./input.ts";

export const noWaitOption: OptionSpec = {
  flags: "--no-wait",
  about: "print the task's UPID and return at once",
};

/** Says `done` when the work has ended well, and to programs which work it was. */
export async function finishWork(
  cli: Cli,
  input: Input,
  answer: unknown,
  done: string,
  /** More comes, or the command tells programs what it made. */
  { isPart = false }: { readonly isPart?: boolean } = {},
): Promise<void> {
  if (!isUpid(answer)) {
    cli.out.done(done);
    return;
  }
  if (input.flag("wait")) {
    const client = await cli.client();
    await client.requireTask(answer, { signal: cli.signal, onLog: (line) => cli.out.note(`  ${line}`) });
    cli.out.done(done);
    if (!cli.out.forPeople && !isPart) cli.out.data({ upid: answer });
  } else if (cli.out.forPeople) cli.out.line(answer);
  else cli.out.data({ upid: answer });
}
