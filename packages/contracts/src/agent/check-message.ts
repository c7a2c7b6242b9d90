// Requests and answers between servers and agents are what the table says, or they are not taken.
import { Errors } from "typebox/schema";
import type { TSchema } from "typebox";

export type MessageSchema = TSchema;

/** What is wrong with a message; undefined = nothing. */
export function messageFault(schema: MessageSchema, value: unknown): string | undefined {
  const [fits, errors] = Errors(schema, value);
  if (fits) return undefined;
  const [first] = errors;
  if (first === undefined) return "does not fit";
  const names = Object.values(first.params).flat().join(", ");
  const where = first.instancePath.slice(1).replaceAll("/", ".");
  if (first.keyword === "boolean") return `${where} is not known`;
  const what = first.keyword === "required" ? `${names} is missing` : first.message;
  return where === "" ? what : `${where} ${what}`;
}
