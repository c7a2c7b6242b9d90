// Reading "status.usage.cpu" out of an object, and filling "{spec.path}" templates with it.

export function fieldAt(object: unknown, path: string): unknown {
  let value: unknown = object;
  for (const part of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}

/** The value as selectors and templates see it; objects and absent values have none. */
export function fieldText(object: unknown, path: string): string | undefined {
  const value = fieldAt(object, path);
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
}

/** `{name}` is short for `{metadata.name}`, `{realm}` is what follows its last "@". Undefined when a field is absent. */
export function fillTemplate(template: string, object: unknown): string | undefined {
  let complete = true;
  const text = template.replaceAll(/\{([^}]+)\}/g, (_all, field: string) => {
    const value = templateField(object, field);
    if (value === undefined) complete = false;
    return value ?? "";
  });
  return complete ? text : undefined;
}

/** The other way round: what the fields of a template must have been. Undefined when the text does not fit. */
export function readTemplate(template: string, text: string): ReadonlyMap<string, string> | undefined {
  const fields: string[] = [];
  const pattern = template
    .split(/(\{[^}]+\})/)
    .map((part) => {
      if (!part.startsWith("{")) return part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
      fields.push(part.slice(1, -1));
      return "(.+?)";
    })
    .join("");
  const match = new RegExp(`^${pattern}$`, "s").exec(text);
  return match === null ? undefined : new Map(fields.map((field, index) => [field, match[index + 1] ?? ""]));
}

function templateField(object: unknown, field: string): string | undefined {
  if (field === "name") return fieldText(object, "metadata.name");
  if (field !== "realm") return fieldText(object, field);
  const name = fieldText(object, "metadata.name");
  return name === undefined || !name.includes("@") ? undefined : name.slice(name.lastIndexOf("@") + 1);
}
