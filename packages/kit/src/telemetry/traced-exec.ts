import { isAppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "../exec.ts";
import { redactArgs } from "../redact.ts";
import { span } from "./span.ts";

/** The same exec with a span for every command: its program, redacted arguments and exit code. */
export function tracedExec(exec: Exec): Exec {
  return (file, args, options) =>
    span(
      // Under a label where another program starts it.
      `exec ${(options?.label ?? file).replace(/^.*\//, "")}`,
      { "process.executable.path": file, "process.command_args": redactArgs(args) },
      async (current) => {
        try {
          const result = await exec(file, args, options);
          current.setAttribute("process.exit.code", result.code);
          return result;
        } catch (err) {
          const code = isAppError(err) ? err.data["exitCode"] : undefined;
          if (typeof code === "number") current.setAttribute("process.exit.code", code);
          throw err;
        }
      },
    );
}
