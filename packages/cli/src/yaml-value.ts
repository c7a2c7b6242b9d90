import type { Document } from "yaml";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { MAX_JSON_DEPTH } from "@gpve/kit/bounded-json.ts";

/** The value of a parsed document; its first mistake as an error that names the place. */
export function yamlValue(
  document: Document.Parsed,
  where: string,
  code: "request.invalid" | "config.invalid",
): unknown {
  // The parser tells of its exhausted stack in the engine's words, and of what follows from it.
  if (document.errors.some((error) => error.code === "RESOURCE_EXHAUSTION"))
    throw new AppError(code, `${where}: ${TOO_DEEP}`);
  const problem = document.errors[0];
  if (problem !== undefined) {
    const line = problem.linePos?.[0].line ?? 1;
    const why = problem.message.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? "not YAML";
    throw new AppError(code, `${where} line ${line}: ${why}`, { cause: problem });
  }
  let value: unknown;
  try {
    value = document.toJS();
  } catch (err) {
    // Aliases are resolved only now.
    throw new AppError(code, `${where}: ${messageOf(err)}`, { cause: err });
  }
  if (isDeeper(value, MAX_JSON_DEPTH)) throw new AppError(code, `${where}: ${TOO_DEEP}`);
  return value;
}

const TOO_DEEP = `nested deeper than ${MAX_JSON_DEPTH} levels`;

/** An alias of what it stands in has no end; the parser bounds how often aliases repeat what they name. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}
