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
  // A choice of shapes reports every shape that failed. It is told by its own words, else by the shape that is not "null".
  const choices = errors.filter((error) => isDescribedChoice(error));
  const told = new Set(choices.map(({ instancePath }) => instancePath));
  const telling = errors.filter((error) => {
    if (told.has(error.instancePath)) return isDescribedChoice(error);
    const { keyword, params } = error;
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

const isDescribedChoice = ({ keyword, parentSchema }: ErrorObject): boolean =>
  keyword === "anyOf" && (parentSchema as { description?: string } | undefined)?.description !== undefined;

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
      const near = meantKey(key, Object.keys(schema?.properties ?? {}));
      const hint = near === undefined ? "" : `; did you mean ${near}?`;
      return { id: "key-unknown", path: [...path, key], message: `is not a key that is known here${hint}` };
    }
    case "required":
      return { id: "key-missing", path: [...path, String(params["missingProperty"])], message: "is missing" };
    case "enum":
      return {
        id: wrong,
        path,
        message: `must be one of ${(params["allowedValues"] as string[]).join(", ")}; not ${shown(error.data)}${schema?.description === undefined ? "" : ` (${schema.description})`}`,
      };
    case "const":
      return {
        id: wrong,
        path,
        message: `must be ${String(params["allowedValue"])}; not ${shown(error.data)}`,
      };
    case "anyOf":
    case "pattern":
      return {
        id: wrong,
        path,
        message: `must be ${schema?.description ?? `written as ${String(params["pattern"])}`}; not ${error.keyword === "anyOf" ? mistaken(error.data) : shown(error.data)}`,
      };
    case "type": {
      const unit = unitOf(schema?.description);
      // 1.13 is a number in YAML, and 1.10 would be 1.1.
      if (params["type"] === "string" && schema?.description !== undefined) {
        const message = `must be text, ${schema.description}; not ${shown(error.data)}`;
        return { id: wrong, path, message };
      }
      const id =
        unit !== undefined && /^[\d.]+ *[A-Za-z]+$/.test(String(error.data)) ? "unit-in-number" : wrong;
      const kind = `${typeNames[String(params["type"])] ?? "of another type"}${params["type"] === "array" ? ", in [ ]" : ""}`;
      // Where a map or a list belongs, what is there instead may be a secret.
      const isPlain = ["integer", "boolean"].includes(String(params["type"]));
      return {
        id,
        path,
        message: `must be ${kind}${unit === undefined ? "" : ` in ${unit} and without a unit`}${isPlain ? `; not ${mistaken(error.data)}${meantSize(error.data, unit)}` : ""}`,
      };
    }
    case "minimum":
    case "maximum": {
      const unit = unitOf(schema?.description);
      const bound = `${error.keyword === "minimum" ? "at least" : "at most"} ${String(params["limit"])}`;
      const message = `must be ${bound}${unit === undefined ? "" : ` ${unit}`}; not ${shown(error.data)}${meantSize(`${String(error.data)} B`, unit)}`;
      return { id: wrong, path, message };
    }
    case "format":
      return {
        id: wrong,
        path,
        message: `must be ${String(params["format"]).startsWith("ip") ? "an IP address" : "a URL"}; not ${shown(error.data)}`,
      };
    case "minItems":
    case "maxItems":
      return {
        id: wrong,
        path,
        message: `must have ${error.keyword === "minItems" ? "at least" : "at most"} ${counted(params["limit"], "entry", "entries")}`,
      };
    case "minProperties":
    case "maxProperties":
      return {
        id: wrong,
        path,
        message: `must say just one of ${Object.keys(schema?.properties ?? {}).join(", ")}`,
      };
    case "minLength":
      return { id: wrong, path, message: "must not be empty" };
    default:
      return { id: wrong, path, message: error.message ?? "is wrong" };
  }
}

const counted = (count: unknown, one: string, many: string): string =>
  `${String(count)} ${count === 1 ? one : many}`;

/** What other tools call it. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ram: "memoryMiB",
  cpus: "cores",
  vcpus: "cores",
  sockets: "cores",
  size: "gib",
  replicas: "count",
  node: "host",
  hostnode: "host",
  target_node: "host",
  address: "ip",
  ipaddress: "ip",
  macaddress: "mac",
  vmid_range: "vmids",
  apitoken: "tokenRef",
  url: "endpoint",
  nameservers: "dns",
  cidr: "nodeCIDR",
  subnet: "nodeCIDR",
};

/** A slip, another tool's word for it, or the beginning of a known key: memory is memoryMiB. */
function meantKey(key: string, known: readonly string[]): string | undefined {
  const lower = key.toLowerCase();
  const elsewhere = ELSEWHERE[lower];
  if (elsewhere !== undefined && known.includes(elsewhere)) return elsewhere;
  const slip = didYouMean(key, known);
  if (slip !== undefined) return slip;
  const longer = known.filter((name) => lower.length > 2 && name.toLowerCase().startsWith(lower));
  return longer.length === 1 ? longer[0] : undefined;
}

function shown(value: unknown): string {
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "a map";
  const text = String(value);
  if (text === "") return "empty";
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** What looks as it should was put into quotes. */
function mistaken(value: unknown): string {
  const isQuoted = typeof value === "string" && /^(-?\d+|true|false)$/.test(value);
  return isQuoted ? `the text "${value}"` : shown(value);
}

function unitOf(description: string | undefined): string | undefined {
  return /^in (\w+)$/.exec(description ?? "")?.[1];
}

const POWERS = ["", "K", "M", "G", "T"];

/** What a size with its unit comes to, where that is a whole number: ", which is 2048". */
function meantSize(value: unknown, unit: string | undefined): string {
  const [, number, prefix] = /^(\d+(?:\.\d+)?) *([kKMGT]?)(?:i?B|i)?$/.exec(String(value)) ?? [];
  const target = POWERS.indexOf(unit?.[0] ?? "none");
  if (number === undefined || target < 0 || String(value) === number) return "";
  const size = Number(number) * 1024 ** (POWERS.indexOf((prefix ?? "").toUpperCase()) - target);
  return Number.isInteger(size) && size > 0 ? ` (which is ${size} ${unit})` : "";
}
