// Editors check a file before the environment has been read: wherever a value is to be of some form, a reference to the
// environment is as good. What kind the file is of (`apiVersion`, `kind`) is written out.
import { isObject } from "@gpve/contracts/json-object.ts";

type Schema = Readonly<Record<string, unknown>>;

const REFERENCE = { $ref: "#/$defs/environment" } as const;
/** What they refer to; at the root of the schema. */
export const referenceDefinitions = {
  environment: {
    description: "from the environment: ${NAME}, or ${NAME:-value}",
    type: "string",
    pattern: "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}",
  },
} as const;
/** They say something of the value, whatever it is written as. */
const ABOUT = ["description", "default"];

export function allowReferences(schema: Schema): Schema {
  if (isChoice(schema)) {
    const choices = (schema["anyOf"] as readonly Schema[]).map((each) =>
      isValue(each) ? each : allowReferences(each),
    );
    return { ...schema, anyOf: choices.some(isValue) ? [...choices, REFERENCE] : choices };
  }
  if (isValue(schema)) {
    if (takesAnyText(schema)) return schema;
    const entries = Object.entries(schema);
    const about = Object.fromEntries(entries.filter(([key]) => ABOUT.includes(key)));
    const form = Object.fromEntries(entries.filter(([key]) => !ABOUT.includes(key)));
    return { ...about, anyOf: [form, REFERENCE] };
  }
  return Object.fromEntries(Object.entries(schema).map(([key, inner]) => [key, inParts(key, inner)]));
}

function inParts(key: string, inner: unknown): unknown {
  if (!isObject(inner)) return inner;
  if (key === "items" || key === "additionalProperties") return allowReferences(inner);
  if (key !== "properties" && key !== "patternProperties") return inner;
  return Object.fromEntries(
    Object.entries(inner).map(([name, each]) => [name, isObject(each) ? allowReferences(each) : each]),
  );
}

function isChoice(schema: Schema): boolean {
  return Array.isArray(schema["anyOf"]);
}

/** Neither a map nor a list. */
function isValue(schema: Schema): boolean {
  if ("const" in schema) return false;
  return "enum" in schema || ["string", "integer", "number", "boolean"].includes(String(schema["type"]));
}

function takesAnyText(schema: Schema): boolean {
  const bounds = ["pattern", "format", "enum", "maxLength"];
  return schema["type"] === "string" && !bounds.some((bound) => bound in schema);
}
