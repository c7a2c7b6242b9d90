import type { Document } from "yaml";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";

/** The value of a parsed document; its first mistake as an error that names the place. */
export function yamlValue(
  document: Document.Parsed,
  where: string,
  code: "request.invalid" | "config.invalid",
): unknown {
  const problem = document.errors[0];
  if (problem !== undefined) {
    const line = problem.linePos?.[0].line ?? 1;
    const why = problem.message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? "not YAML";
    throw new AppError(code, `${where} line ${line}: ${why}`, { cause: problem });
  }
  try {
    return document.toJS() as unknown;
  } catch (err) {
    // Aliases are resolved only now.
    throw new AppError(code, `${where}: ${messageOf(err)}`, { cause: err });
  }
}
