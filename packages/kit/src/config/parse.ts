import { LineCounter, parseDocument, type Node } from "yaml";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Field, Reading } from "./fields.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Parses one YAML configuration file. Throws config.invalid with every problem as "file:line: key: text". */
export function parseConfig<T>(text: string, file: string, env: Environment, field: Field<T>): T {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, prettyErrors: false });
  const reading: Reading = { file, lines, env, problems: [] };
  for (const error of document.errors) {
    reading.problems.push(`${file}:${lines.linePos(error.pos[0]).line}: ${error.message}`);
  }
  if (reading.problems.length > 0) throw invalid(reading.problems);
  const root = document.contents as Node | null;
  const value = field(root, { reading, key: "", near: root });
  if (reading.problems.length > 0) throw invalid(reading.problems);
  return value;
}

function invalid(problems: readonly string[]): AppError {
  return new AppError("config.invalid", problems.join("\n"), { data: { problems } });
}
