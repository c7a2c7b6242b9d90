import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, it } from "vitest";
import type { PveMethod } from "../pve/schema.ts";
import { v1Kinds } from "./kinds.ts";
import { openApiOfPve } from "./openapi-pve.ts";
import { openApiOfV1 } from "./openapi.ts";
import type { OpenApiDocument } from "./openapi.ts";
import { v1Routes } from "./routes.ts";

const methods = JSON.parse(
  readFileSync(new URL("../gen/pve-api.json", import.meta.url), "utf8"),
) as readonly PveMethod[];

const documents: readonly [string, OpenApiDocument][] = [
  ["/api/v1", openApiOfV1({ version: "1.2.3" })],
  ["/api2", openApiOfPve({ version: "1.2.3", methods, implemented: (method) => method.method === "GET" })],
];

function* walk(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield value as Record<string, unknown>;
  for (const part of Object.values(value)) yield* walk(part);
}

function resolve(document: unknown, pointer: string): unknown {
  return pointer
    .slice(2)
    .split("/")
    .reduce<unknown>(
      (value, part) =>
        (value as Record<string, unknown> | undefined)?.[part.replaceAll("~1", "/").replaceAll("~0", "~")],
      document,
    );
}

describe.each(documents)("the OpenAPI document of %s", (_name, built) => {
  const document = JSON.parse(JSON.stringify(built)) as OpenApiDocument;
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([verb, operation]) => ({ path, verb, operation })),
  );

  it("resolves every reference", () => {
    for (const node of walk(document)) {
      const target = node["$ref"];
      if (typeof target !== "string") continue;
      expect(target.startsWith("#/"), target).toBe(true);
      expect(resolve(document, target), target).toBeDefined();
    }
  });

  it("gives every operation a permission, an audit rule, an id of its own and its path parameters", () => {
    expect(operations.length).toBeGreaterThan(20);
    expect(new Set(operations.map(({ operation }) => operation["operationId"])).size).toBe(operations.length);
    for (const { path, verb, operation } of operations) {
      const where = `${verb} ${path}`;
      expect(operation["x-gpve-permission"], where).toBeDefined();
      expect(operation["x-gpve-audit"], where).toMatch(/^(none|read|write)$/);
      const declared = (operation["parameters"] as { in?: string; name?: string }[])
        .filter((parameter) => parameter.in === "path")
        .map((parameter) => parameter.name);
      expect(declared, where).toEqual([...path.matchAll(/\{([^}]+)\}/g)].map((match) => match[1]));
      expect(operation["responses"], where).toHaveProperty("default");
    }
  });

  it("has schemas that compile", () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: true });
    addFormats.default(ajv);
    ajv.addSchema({ $id: "doc", ...document });
    for (const name of Object.keys(document.components.schemas)) {
      expect(ajv.compile({ $ref: `doc#/components/schemas/${name}` }), name).toBeTypeOf("function");
    }
    for (const { path, verb, operation } of operations) {
      const bodies = [
        operation["requestBody"],
        ...Object.values(operation["responses"] as Record<string, unknown>),
      ];
      const schemas = bodies.flatMap((body) =>
        Object.values((body as { content?: Record<string, { schema: object }> } | undefined)?.content ?? {}),
      );
      for (const { schema } of schemas) {
        if ("$ref" in schema) continue;
        expect(() => ajv.compile(schema), `${verb} ${path}`).not.toThrow();
      }
    }
  });
});

describe("the routes of /api/v1", () => {
  it("never share a method and a shape of path", () => {
    const shapes = v1Routes().map((route) => `${route.method} ${route.path.replaceAll(/\{[^}]+\}/g, "{}")}`);
    expect(new Set(shapes).size).toBe(shapes.length);
  });

  it("audits every change", () => {
    for (const route of v1Routes()) {
      const changesNothing = ["plan", "simulatePlace", "simulateNodeLoss"].includes(route.operationId);
      if (route.method === "GET" || changesNothing) continue;
      expect(route.audit, route.operationId).toBe("write");
    }
  });

  it("declares verbs, columns and describe fields that exist in the schema of the kind", () => {
    for (const kind of v1Kinds) {
      const known = (field: string): boolean => {
        const [head, ...rest] = field.split(".");
        if (head === "metadata") return true;
        let schema: unknown = head === "spec" ? kind.spec : kind.status;
        for (const part of rest)
          schema = (schema as { properties?: Record<string, unknown> }).properties?.[part];
        return schema !== undefined;
      };
      const fields = [
        ...kind.columns.map((column) => column.field),
        ...kind.describe.flatMap((group) => group.fields),
        ...kind.selectableFields,
      ];
      for (const field of fields) expect(known(field), `${kind.kind}: ${field}`).toBe(true);
      expect(() => new RegExp(kind.namePattern, "u")).not.toThrow();
    }
  });
});

it("lets a virtual cluster be deleted with its volumes, by both of its paths", () => {
  const deletes = v1Routes().filter(
    ({ method, path }) => method === "DELETE" && path.endsWith("/vclusters/{name}"),
  );
  expect(deletes.map(({ path }) => path)).toHaveLength(2);
  for (const { query } of deletes) expect(query?.map(({ name }) => name)).toContain("force");
});
