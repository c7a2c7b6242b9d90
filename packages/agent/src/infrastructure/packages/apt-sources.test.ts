import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { expect, test } from "vitest";
import { parseList, parseSources, readAptSources } from "./apt-sources.ts";

const returns = methodByKey("GET /nodes/{node}/apt/repositories")?.returns ?? {};

test("reads one source a line, with options, components and remarks, on or off", () => {
  expect(
    parseList(
      [
        "# a remark that stands alone",
        "",
        "# main",
        "deb [arch=amd64,arm64 signed-by=/k.gpg] http://deb.example.org/debian bookworm main contrib # fast",
        "#deb-src http://deb.example.org/debian bookworm main",
        "deb cdrom:[disc]/ bookworm/",
        "",
      ].join("\n"),
    ),
  ).toEqual([
    {
      Types: ["deb"],
      URIs: ["http://deb.example.org/debian"],
      Suites: ["bookworm"],
      Components: ["main", "contrib"],
      Options: [
        { Key: "arch", Values: ["amd64", "arm64"] },
        { Key: "signed-by", Values: ["/k.gpg"] },
      ],
      Comment: "main\nfast",
      Enabled: true,
      FileType: "list",
    },
    {
      Types: ["deb-src"],
      URIs: ["http://deb.example.org/debian"],
      Suites: ["bookworm"],
      Components: ["main"],
      Enabled: false,
      FileType: "list",
    },
    { Types: ["deb"], URIs: ["cdrom:[disc]/"], Suites: ["bookworm/"], Enabled: true, FileType: "list" },
  ]);
  expect(() => parseList("deb http://x s c\nrubbish\n")).toThrow("line 2 names no source");
});

test("reads paragraphs of fields", () => {
  expect(
    parseSources(
      [
        "# Debian",
        "Types: deb deb-src",
        "URIs: http://deb.example.org/debian",
        "Suites: trixie",
        " trixie-updates",
        "Components: main",
        "Signed-By: /k.gpg",
        "",
        "",
        "Types: deb",
        "URIs: http://o.example.org",
        "Suites: ./",
        "Enabled: no",
        "",
      ].join("\n"),
    ),
  ).toEqual([
    {
      Types: ["deb", "deb-src"],
      URIs: ["http://deb.example.org/debian"],
      Suites: ["trixie", "trixie-updates"],
      Components: ["main"],
      Options: [{ Key: "Signed-By", Values: ["/k.gpg"] }],
      Comment: "Debian",
      Enabled: true,
      FileType: "sources",
    },
    { Types: ["deb"], URIs: ["http://o.example.org"], Suites: ["./"], Enabled: false, FileType: "sources" },
  ]);
  expect(() => parseSources("Types: deb\nURIs: http://x\n")).toThrow("without Types, URIs or Suites");
});

test("all files come in order, with digests that change with them, and those it cannot read as errors", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-apt-"));
  try {
    mkdirSync(join(folder, "sources.list.d"));
    writeFileSync(join(folder, "sources.list"), "deb http://x.example.org a main\n");
    writeFileSync(join(folder, "sources.list.d/b.sources"), "Types: deb\nURIs: http://b\nSuites: b\n");
    writeFileSync(join(folder, "sources.list.d/bad.list"), "what\n");
    writeFileSync(join(folder, "sources.list.d/old.list.save"), "what\n");
    const found = readAptSources(folder);
    expect(shapeProblems(returns, toWire(returns, found))).toEqual([]);
    expect(found.files.map(({ path }) => path.slice(folder.length + 1))).toEqual([
      "sources.list",
      "sources.list.d/b.sources",
    ]);
    expect(found.files[0]?.digest).toHaveLength(32);
    expect(found.errors).toEqual([
      { path: join(folder, "sources.list.d/bad.list"), error: "line 1 names no source" },
    ]);
    writeFileSync(join(folder, "sources.list"), "deb http://x.example.org a contrib\n");
    expect(readAptSources(folder).digest).not.toBe(found.digest);
  } finally {
    rmSync(folder, { recursive: true });
  }
  expect(readAptSources(folder).files).toEqual([]);
});
