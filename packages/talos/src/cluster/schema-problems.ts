// What the schema finds wrong, in words.
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { type ClusterFile, clusterSchema } from "./cluster-schema.ts";
import type { Problem } from "./problem.ts";

const typeNames: Readonly<Record<string, string>> = {
  object: "a map of keys and values",
  array: "a list",
  string: "text",
  integer: "a whole number",
  boolean: "true or false",
};

const wrong = "value-wrong";

let compiled: ValidateFunction<ClusterFile> | undefined;

/** Fills defaults into `value`. No problems: it is a ClusterFile. */
export function schemaProblems(value: unknown): readonly Problem[] {
  compiled ??= compile();
  if (compiled(value)) return [];
  const errors = compiled.errors ?? [];
  // A choice of shapes reports every shape that failed; the one that is not "null" says what was meant.
  const telling = errors.filter(({ keyword, params }) => {
    return !["anyOf", "if"].includes(keyword) && (params as { type?: string }).type !== "null";
  });
  const problems = (telling.length > 0 ? telling : errors).map(toProblem);
  const seen = new Set<string>();
  return problems.filter(({ path }) => {
    const key = path.join("/");
    return !seen.has(key) && seen.add(key);
  });
}

function compile(): ValidateFunction<ClusterFile> {
  const ajv = new Ajv2020({ allErrors: true, useDefaults: true, strict: false, verbose: true });
  addFormats.default(ajv);
  return ajv.compile<ClusterFile>(clusterSchema);
}

function toProblem(error: ErrorObject): Problem {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  const schema = error.parentSchema as { description?: string; properties?: object } | undefined;
  const params = error.params as Readonly<Record<string, unknown>>;
  switch (error.keyword) {
    case "additionalProperties": {
      const key = String(params["additionalProperty"]);
      const near = didYouMean(key, Object.keys(schema?.properties ?? {}));
      const hint = near === undefined ? "" : `; did you mean ${near}?`;
      return { id: "key-unknown", path: [...path, key], message: `is not a key that is known here${hint}` };
    }
    case "required":
      return { id: "key-missing", path: [...path, String(params["missingProperty"])], message: "is missing" };
    case "enum":
      return {
        id: wrong,
        path,
        message: `must be one of ${(params["allowedValues"] as string[]).join(", ")}`,
      };
    case "const":
      return { id: wrong, path, message: `must be ${String(params["allowedValue"])}` };
    case "pattern":
      return {
        id: wrong,
        path,
        message: `must be ${schema?.description ?? `written as ${String(params["pattern"])}`}`,
      };
    case "type": {
      const unit = /^in \w+$/.test(schema?.description ?? "")
        ? ` ${schema?.description} and without a unit`
        : "";
      // 1.13 is a number in YAML, and 1.10 would be 1.1.
      if (params["type"] === "string" && schema?.description !== undefined) {
        const message = `must be text, ${schema.description}; not ${shown(error.data)}`;
        return { id: wrong, path, message };
      }
      const id = unit !== "" && /^\d+ *[A-Za-z]+$/.test(String(error.data)) ? "unit-in-number" : wrong;
      return {
        id,
        path,
        message: `must be ${typeNames[String(params["type"])] ?? "of another type"}${unit}`,
      };
    }
    case "format":
      return {
        id: wrong,
        path,
        message: String(params["format"]).startsWith("ip") ? "must be an IP address" : "must be a URL",
      };
    default:
      return { id: wrong, path, message: error.message ?? "is wrong" };
  }
}

function shown(value: unknown): string {
  return typeof value === "object" && value !== null ? "a list or map" : String(value);
}
