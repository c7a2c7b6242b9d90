import fc from "fast-check";
import { expect, test } from "vitest";
import { parseConfig, parseDocuments, writeConfig } from "./config-text.ts";
import type { ConfigDocument } from "./document.ts";

const scalar = fc.oneof(
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom(
    "",
    "yes",
    "no",
    "on",
    "~",
    "null",
    "0777",
    "1e3",
    "0x1f",
    "1_000",
    "12:30",
    "- a",
    "# b",
    "a: b",
    "a\nb",
    "a\nb\n",
    " a\nb",
    "a\n\n",
    "\n",
    "a \nb",
    "=",
    "<<",
    "2026-01-01",
    "!x",
    "&a",
    "*a",
    "|",
    "%",
    "@",
  ),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(
      fc.string({ minLength: 1, maxLength: 6 }).filter((key) => key !== "__proto__" && key !== "<<"),
      tie("value"),
      { maxKeys: 3 },
    ),
  ),
}));
const document = fc.dictionary(fc.constantFrom("machine", "cluster", "kind", "name"), value, { minKeys: 1 });

test("whatever is written is read back", () => {
  fc.assert(
    fc.property(fc.array(document, { minLength: 1, maxLength: 3 }), (documents) => {
      const config = documents as readonly ConfigDocument[];
      // Dictionaries of the generator have no prototype, those of a reader have one: compared as data.
      expect(JSON.stringify(parseConfig(writeConfig(config), "text"))).toEqual(JSON.stringify(config));
    }),
    { numRuns: 500 },
  );
});

test("text is laid out as Go writes it", () => {
  const text = writeConfig([
    { machine: { certSANs: [], list: ["a", { name: "b", inner: { deep: [1] } }, [2, 3]], pem: "x\ny\n" } },
    { kind: "Second", empty: {}, lines: ["x\ny"] },
  ]);
  expect(text).toBe(`machine:
    certSANs: []
    list:
        - a
        - name: b
          inner:
            deep:
                - 1
        - - 2
          - 3
    pem: |
        x
        y
---
kind: Second
empty: {}
lines:
    - |-
      x
      y
`);
});

test("numbers are what they are to Talos: octal when they begin with 0, and texts where it takes texts", () => {
  const text = `machine:
  files: [{ permissions: 0644 }, { permissions: 0o600 }, { permissions: 0 }]
  nodeLabels: { release: 1.10, build: 007, wide: 1e3, plain: 5, is: True }
  sysctls:
    kernel.shmmax: 18446744073692774399
`;
  expect(parseConfig(text, "text")).toEqual([
    {
      machine: {
        files: [{ permissions: 0o644 }, { permissions: 0o600 }, { permissions: 0 }],
        nodeLabels: { release: "1.10", build: "007", wide: "1e3", plain: 5, is: "True" },
        sysctls: { "kernel.shmmax": "18446744073692774399" },
      },
    },
  ]);
});

test("maps are merged into others as YAML 1.1 and Go have it", () => {
  const text = "a: &own { x: '1', y: '2' }\nb: { <<: *own, y: '3' }\n";
  expect(parseConfig(text, "text")).toEqual([{ a: { x: "1", y: "2" }, b: { x: "1", y: "3" } }]);
});

test("empty documents are left out, others must be maps", () => {
  expect(parseDocuments("", "text")).toEqual([]);
  expect(parseConfig("---\na: 1\n---\n# nothing\n---\nb: 2\n", "text")).toEqual([{ a: 1 }, { b: 2 }]);
  expect(() => parseConfig("a: 1\n---\n- b\n", "node.yaml")).toThrow("document 2 of node.yaml is no map");
});

test("text that is no YAML is refused without quoting it", () => {
  expect(() => parseConfig("token: abc\n  key: }secret", "node.yaml")).toThrow(
    /document 1 of node\.yaml is no YAML: [A-Z_]+ at character \d+$/,
  );
});

test("aliases that would grow without bound are refused", () => {
  const layers = Array.from(
    { length: 8 },
    (_, n) => `l${n + 1}: &l${n + 1} [${Array(9).fill(`*l${n}`).join(",")}]`,
  );
  expect(() => parseConfig(`l0: &l0 [x]\n${layers.join("\n")}\n`, "text")).toThrow();
});
