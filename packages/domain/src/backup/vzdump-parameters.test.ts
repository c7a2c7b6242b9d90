import { expect, test } from "vitest";
import { checkVzdumpSelection, selectsAll, splitVmids, vzdumpCommandLine } from "./vzdump-parameters.ts";

test.each([
  [{ vmid: "100", all: true }, { all: "option conflicts with option 'vmid'" }],
  [{ vmid: "100", exclude: "101" }, { exclude: "option conflicts with option 'vmid'" }],
  [{ vmid: "100", pool: "p" }, { pool: "option conflicts with option 'vmid'" }],
  [{ vmid: "100", "notes-template": "a\nb" }, { "notes-template": "contains a line feed" }],
  [{}, { vmid: "property is missing" }],
])("refuses %j", (params, errors) => {
  expect(() => checkVzdumpSelection(params)).toThrow(expect.objectContaining({ errors }));
});

test.each([[{ vmid: "100" }], [{ all: true }], [{ exclude: "101" }], [{ pool: "p" }], [{ stop: true }]])(
  "takes %j",
  (params) => {
    expect(() => checkVzdumpSelection(params)).not.toThrow();
  },
);

test("knows when everybody is meant, and who is named", () => {
  expect([{ exclude: "1" }, { all: true }, { pool: "p", exclude: "1" }, {}].map(selectsAll)).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(splitVmids("200, 100;100 0")).toEqual([100, 200]);
  expect(splitVmids(undefined)).toEqual([]);
});

test("tells the command that asks for the same", () => {
  expect(
    vzdumpCommandLine({
      vmid: "101,100",
      storage: "local",
      mode: "stop",
      protected: true,
      remove: false,
      stdout: false,
      pool: "",
      "exclude-path": ["/a", "/b c"],
      "notes-template": "it's {{vmid}}",
    }),
  ).toBe(
    `vzdump 100 101 --exclude-path /a --exclude-path '/b c' --mode stop --notes-template 'it'"'"'s {{vmid}}' ` +
      "--protected 1 --remove 0 --storage local",
  );
});
