import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PveMethod, PveSchema } from "@gpve/contracts/pve/schema.ts";
import { isKnownFormat } from "./check.ts";
import { methodByKey, pveMethods } from "./method-table.ts";
import { requireValidParams, validateParams } from "./validate-params.ts";

function methodOf(key: string): PveMethod {
  const method = methodByKey(key);
  if (method === undefined) throw new Error(`no method ${key}`);
  return method;
}

function methodWith(parameters: Record<string, PveSchema>, additionalProperties: boolean = false): PveMethod {
  return { ...methodOf("GET /version"), parameters, additionalProperties };
}

const form = { source: "form" } as const;
const json = { source: "json" } as const;

function errorsOf(method: PveMethod, raw: Record<string, unknown>, source: "form" | "json" = "form") {
  const result = validateParams(method, raw, { source });
  return result.ok ? {} : result.errors;
}

describe("validateParams", () => {
  const config = methodOf("PUT /nodes/{node}/qemu/{vmid}/config");
  const base = { node: "n1", vmid: "100" };

  it("types what a form says", () => {
    const result = validateParams(
      config,
      { ...base, onboot: "1", cores: "4", cpulimit: "1.5", memory: "2048", net31: "virtio", _dc: "17" },
      form,
    );
    expect(result).toEqual({
      ok: true,
      params: {
        node: "n1",
        vmid: 100,
        onboot: true,
        cores: 4,
        cpulimit: 1.5,
        memory: "2048",
        net31: "virtio",
      },
    });
  });

  it("uses PVE's texts for every kind of failure", () => {
    expect(errorsOf(config, { node: "n1" })).toEqual({
      vmid: "property is missing and it is not optional",
    });
    expect(
      errorsOf(config, {
        ...base,
        node: "-x",
        cores: "two",
        sockets: "0",
        shares: "50001",
        bios: "coreboot",
        vmgenid: "no",
        digest: "x".repeat(41),
        onboot: "yes",
        net32: "virtio",
        nonsense: "1",
      }),
    ).toEqual({
      node: "invalid format - value does not look like a valid node name\n",
      cores: "type check ('integer') failed - got 'two'",
      sockets: "value must have a minimum value of 1",
      shares: "value must have a maximum value of 50000",
      bios: "value 'coreboot' does not have a value in the enumeration 'seabios, ovmf'",
      vmgenid: "value does not match the regex pattern",
      digest: "value may only be 40 characters long",
      onboot: "type check ('boolean') failed - got 'yes'",
      net32: "property is not defined in schema and the schema does not allow additional properties",
      nonsense: "property is not defined in schema and the schema does not allow additional properties",
    });
    expect(errorsOf(methodWith({ a: { type: "string", minLength: 3 } }), { a: "x" })).toEqual({
      a: "value must be at least 3 characters long",
    });
  });

  it("reports broken property strings with dotted keys in the text", () => {
    expect(errorsOf(config, { ...base, net0: "bridge=vmbr0,tag=9999" })).toEqual({
      net0:
        "invalid format - format error\n" +
        "net0.model: property is missing and it is not optional\n" +
        "net0.tag: value must have a maximum value of 4094\n",
    });
    expect(errorsOf(config, { ...base, scsi0: "a:1,a:2" })).toEqual({
      scsi0: "invalid format - duplicate key in comma-separated list property: file\n",
    });
    expect(errorsOf(config, { ...base, cpu: "warp9" })).toEqual({
      cpu: "invalid format - Built-in cputype 'warp9' is not defined (missing 'custom-' prefix?)\n",
    });
  });

  it("joins several texts on one key by a literal backslash-n", () => {
    const method = methodWith({
      a: { type: "string", requires: "c", optional: true },
      b: { type: "string", requires: "c", optional: true },
      c: { type: "string", optional: true },
    });
    expect(errorsOf(method, { a: "1", b: "2" })).toEqual({
      c: "missing property required by 'a'\\nmissing property required by 'b'",
    });
  });

  it("makes a list of one value and joins repeated keys of list parameters", () => {
    const method = methodWith({
      command: { type: "array", items: { type: "string" } },
      delete: { type: "string", format: "pve-configid-list", optional: true },
    });
    expect(validateParams(method, { command: "ls", delete: ["net0", "net1"] }, form)).toEqual({
      ok: true,
      params: { command: ["ls"], delete: "net0,net1" },
    });
    expect(errorsOf(method, { command: [["x"], null], delete: "a,9" })).toEqual({
      "command[0]": "type check ('string') failed - got ARRAY",
      "command[1]": "property is missing and it is not optional",
      delete: "invalid format - invalid configuration ID 'a'\n",
    });
  });

  it("follows JSON clients in JSON bodies only", () => {
    const method = methodWith({
      flag: { type: "boolean", optional: true },
      count: { type: "integer", optional: true },
      text: { type: "string", optional: true },
    });
    for (const flag of [true, 1, "1", "on", "True"])
      expect(validateParams(method, { flag }, json)).toEqual({ ok: true, params: { flag: true } });
    expect(validateParams(method, { flag: false, count: "1e+06", text: 5 }, json)).toEqual({
      ok: true,
      params: { flag: false, count: 1_000_000, text: "5" },
    });
    expect(validateParams(method, { count: 1e6, text: null }, json)).toEqual({
      ok: true,
      params: { count: 1_000_000 },
    });
    expect(errorsOf(method, { flag: "true", count: "1e+06" })).toEqual({
      flag: "type check ('boolean') failed - got 'true'",
      count: "type check ('integer') failed - got '1e+06'",
    });
    expect(errorsOf(method, { count: true, text: {} }, "json")).toEqual({
      count: "type check ('integer') failed - got JSON::PP::Boolean",
      text: "type check ('string') failed - got HASH",
    });
    expect(errorsOf(method, { count: 1.5 }, "json")).toEqual({
      count: "type check ('integer') failed - got '1.5'",
    });
  });

  it("knows keys only for the types they belong to", () => {
    const method = methodWith({
      type: { type: "string", optional: true },
      nodes: { type: "string", optional: true, "type-property": "type", "instance-types": ["a"] },
      list: {
        optional: true,
        "type-property": "type",
        oneOf: [
          { type: "array", items: { type: "integer" }, "instance-types": ["a"] },
          { type: "array", items: { type: "string" }, "instance-types": ["b"] },
        ],
      },
    });
    expect(validateParams(method, { type: "a", nodes: "n", list: "1" }, form)).toEqual({
      ok: true,
      params: { type: "a", nodes: "n", list: [1] },
    });
    expect(validateParams(method, { nodes: "n", list: "x" }, form)).toEqual({
      ok: true,
      params: { nodes: "n", list: ["x"] },
    });
    expect(Object.keys(errorsOf(method, { type: "b", nodes: "n" }))).toEqual(["nodes"]);
    expect(Object.keys(errorsOf(method, { type: "c", list: "n" }))).toEqual(["list"]);
  });

  it("checks objects, alternatives and additional properties", () => {
    const method = methodWith({
      o: {
        type: "object",
        optional: true,
        properties: { a: { type: "integer" } },
        additionalProperties: { type: "integer" },
      },
      either: { optional: true, oneOf: [{ type: "integer" }, { type: "boolean" }] },
      none: { type: "null", optional: true },
    });
    expect(validateParams(method, { o: { a: 1, b: "2" }, either: "7" }, json)).toEqual({
      ok: true,
      params: { o: { a: 1, b: 2 }, either: 7 },
    });
    expect(errorsOf(method, { o: { b: "x" }, either: "maybe", none: "x" }, "json")).toEqual({
      "o.a": "property is missing and it is not optional",
      "o.b": "type check ('integer') failed - got 'x'",
      "either.oneOf[0]": "type check ('integer') failed - got 'maybe'",
      "either.oneOf[1]": "type check ('boolean') failed - got 'maybe'",
      none: "type check ('null') failed - value is not null",
    });
    expect(errorsOf(method, { o: "text" })).toEqual({ o: "type check ('object') failed" });
    expect(validateParams(methodWith({}, true), { any: { x: 1 } }, json)).toEqual({
      ok: true,
      params: { any: { x: 1 } },
    });
  });

  it("throws the error a client expects when asked to", () => {
    expect(requireValidParams(config, base, form)).toEqual({ node: "n1", vmid: 100 });
    expect(() => requireValidParams(config, {}, form)).toThrow("Parameter verification failed.");
  });

  it("never throws, whatever a client sends", () => {
    const methods = fc.constantFrom(...pveMethods);
    const keyed = methods.chain((method) =>
      fc.tuple(
        fc.constant(method),
        fc.dictionary(
          fc.oneof(
            fc.string(),
            fc.constantFrom("__proto__", "constructor", ...Object.keys(method.parameters)),
            fc.constantFrom("net0", "scsi1", "boot", "cpu"),
          ),
          fc.oneof(
            fc.string(),
            fc.jsonValue(),
            fc.constantFrom("virtio=AA:BB:CC:DD:EE:FF,bridge=vmbr0", "1", "a:b,c=d"),
          ),
        ),
        fc.constantFrom(form, json),
      ),
    );
    fc.assert(
      fc.property(keyed, ([method, raw, options]) => {
        const result = validateParams(method, raw, options);
        if (!result.ok) expect(Object.keys(result.errors).length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });

  it("knows every format that the API names", () => {
    const unknown = new Set<string>();
    const visit = (schema: PveSchema) => {
      if (typeof schema.format === "string" && !isKnownFormat(schema.format)) unknown.add(schema.format);
      if (typeof schema.format === "object") Object.values(schema.format).forEach(visit);
      if (schema.items !== undefined) visit(schema.items);
      schema.oneOf?.forEach(visit);
      Object.values(schema.properties ?? {}).forEach(visit);
    };
    for (const method of pveMethods) Object.values(method.parameters).forEach(visit);
    expect([...unknown]).toEqual([]);
  });
});
