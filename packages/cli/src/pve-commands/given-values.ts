// Values that are not on the command line: a file's content, a password that is asked for.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { CliIo } from "../io.ts";
import type { OptionValues, ValueSource } from "./command-entry.ts";
import type { CommandShape } from "./command-shape.ts";

export async function completeValues(
  values: OptionValues,
  sources: Readonly<Record<string, ValueSource>>,
  shape: CommandShape,
  io: CliIo,
): Promise<OptionValues> {
  const complete: Record<string, string | readonly string[]> = { ...values };
  for (const [name, source] of Object.entries(sources)) {
    const given = complete[name];
    const isNeeded = shape.parameters[name]?.optional !== true;
    if (source === "file") {
      if (given !== undefined) complete[name] = await fileText(String(given), io);
    } else if (given === "" || (given === undefined && isNeeded)) {
      complete[name] = await password(io, source === "new-password");
    }
  }
  return complete;
}

async function fileText(path: string, io: CliIo): Promise<string> {
  try {
    return encodeURIComponent(await readFile(resolve(io.cwd, path), "utf8"));
  } catch (cause) {
    throw new AppError("request.invalid", `can't open '${path}' - ${reasonOf(cause)}`, {
      cause,
      pveStatus: 500,
    });
  }
}

function reasonOf(cause: unknown): string {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return code === "ENOENT" ? "No such file or directory" : String(code);
}

async function password(io: CliIo, isNew: boolean): Promise<string> {
  const first = await askOrRead(io, isNew ? "Enter new password: " : "Enter password: ");
  if (!first.isPiped && isNew && (await io.ask("Retype new password: ", { hidden: true })) !== first.text) {
    throw new AppError("request.invalid", "Passwords do not match.", { pveStatus: 500 });
  }
  return first.text;
}

/** Where nobody can be asked, the answer is on standard input. */
async function askOrRead(io: CliIo, question: string): Promise<{ text: string; isPiped: boolean }> {
  try {
    return { text: await io.ask(question, { hidden: true }), isPiped: false };
  } catch (err) {
    if (!isAppError(err, "config.invalid")) throw err;
    return { text: (await io.readStdin()).split("\n")[0] ?? "", isPiped: true };
  }
}
