// Checks bodies against the declared schemas and says, per field, what is wrong.
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { AppError } from "@gpve/contracts/errors.ts";
import { fillTemplate } from "@gpve/contracts/v1/field-path.ts";
import type { KindDeclaration } from "@gpve/contracts/v1/kind.ts";
import { API_VERSION, ObjectMetaInputSchema } from "@gpve/contracts/v1/object.ts";
import type { Schema, V1ObjectInput } from "@gpve/contracts/v1/object.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";
import { nameProblem } from "./kind-name.ts";

/** A checked object: its name is known, defaults are filled in. */
export interface CheckedObject extends V1ObjectInput {
  readonly metadata: V1ObjectInput["metadata"] & { readonly name: string };
}

export class Validator {
  readonly #ajv: Ajv2020;
  readonly #compiled = new Map<unknown, ValidateFunction>();

  constructor() {
    this.#ajv = new Ajv2020({ allErrors: true, useDefaults: true, strict: false, verbose: true });
    addFormats.default(this.#ajv);
  }

  /** Throws request.invalid with a text per field. Fills defaults into a copy and returns it. */
  check(schema: Schema, value: unknown, what: string): unknown {
    const copy: unknown = structuredClone(value);
    const validate = this.#compile(schema);
    if (validate(copy)) return copy;
    const errors = fieldErrors(validate.errors ?? []);
    const [first] = Object.entries(errors);
    const more = Object.keys(errors).length - 1;
    const detail =
      first === undefined ? "" : `: ${first[0]} ${first[1]}${more > 0 ? ` (and ${more} more)` : ""}`;
    throw new AppError("request.invalid", `${what} is not valid${detail}`, { errors });
  }

  /** `pathName` is the name in the URL; the body's, where given, must be the same. */
  checkObject(kind: KindDeclaration, body: unknown, pathName?: string): CheckedObject {
    const object = this.check(this.#objectSchema(kind), body, `the ${kind.kind}`) as V1ObjectInput;
    const derived = kind.nameTemplate === undefined ? undefined : fillTemplate(kind.nameTemplate, object);
    const name = object.metadata.name ?? derived ?? pathName;
    const problem =
      name === undefined
        ? "is required"
        : pathName !== undefined && name !== pathName
          ? `must be '${pathName}', as in the path`
          : derived !== undefined && name !== derived
            ? `must be '${derived}', which follows from spec; it may be left out`
            : nameProblem(kind, name);
    if (name === undefined || problem !== undefined) {
      throw new AppError("request.invalid", `the ${kind.kind} is not valid: metadata.name ${problem ?? ""}`, {
        errors: { "metadata.name": problem ?? "" },
      });
    }
    if (object.metadata.namespace !== undefined && kind.namespaced !== true)
      throw new AppError(
        "request.invalid",
        `the ${kind.kind} is not valid: metadata.namespace is not for it`,
        {
          errors: { "metadata.namespace": `a ${kind.kind} belongs to no tenant; leave it out` },
        },
      );
    return { ...object, metadata: { ...object.metadata, name } };
  }

  #objectSchema(kind: KindDeclaration): Schema {
    return (this.#schemas[kind.kind] ??= {
      type: "object",
      required: ["apiVersion", "kind", "metadata", "spec"],
      properties: {
        apiVersion: { const: API_VERSION },
        kind: { const: kind.kind },
        metadata: ObjectMetaInputSchema,
        spec: kind.spec,
        status: true,
      },
      additionalProperties: false,
    } as unknown as Schema);
  }
  readonly #schemas: Record<string, Schema> = {};

  #compile(schema: Schema): ValidateFunction {
    const known = this.#compiled.get(schema);
    if (known !== undefined) return known;
    const compiled = this.#ajv.compile(schema);
    this.#compiled.set(schema, compiled);
    return compiled;
  }
}

function fieldErrors(errors: readonly ErrorObject[]): Record<string, string> {
  const texts = new Map<string, string>();
  for (const error of errors) {
    const [field, text] = fieldError(error);
    // Combined schemas report several failures of one field; the first is the most specific.
    if (text !== undefined && !texts.has(field)) texts.set(field, text);
  }
  return Object.fromEntries(texts);
}

function fieldError(error: ErrorObject): [string, string | undefined] {
  const at = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const params = error.params as Readonly<Record<string, unknown>>;
  const field = (...more: readonly unknown[]): string => [...at, ...more].join(".") || "(body)";
  switch (error.keyword) {
    case "required":
      return [field(params["missingProperty"]), "is required"];
    case "additionalProperties": {
      const name = String(params["additionalProperty"]);
      const known = (error.parentSchema as { properties?: object } | undefined)?.properties ?? {};
      const close = didYouMean(name, Object.keys(known));
      return [
        field(name),
        close === undefined ? "is not a known field" : `is not a known field; did you mean '${close}'?`,
      ];
    }
    case "enum":
      return [field(), `must be one of ${(params["allowedValues"] as unknown[]).join(", ")}`];
    case "const":
      return [field(), `must be '${String(params["allowedValue"])}'`];
    case "propertyNames":
      return [field(params["propertyName"]), "is not a valid key"];
    case "pattern":
      // Names of keys are told by propertyNames.
      return [
        field(),
        error.schemaPath.includes("/propertyNames/") ? undefined : `must match ${String(params["pattern"])}`,
      ];
    default:
      return [field(), error.message ?? "is not valid"];
  }
}
