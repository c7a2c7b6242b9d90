import { describe, expect, test } from "vitest";
import { componentCatalogue } from "./catalogue.ts";
import { compareVersions, isComponentVersion } from "./component.ts";

const sources = componentCatalogue.flatMap((component) =>
  component.releases.flatMap((release) =>
    release.sources("amd64").map((source) => ({ component, release, source })),
  ),
);

describe("the catalogue of components", () => {
  test("every way to a component leads to all of its programs", () => {
    for (const { component, release, source } of sources) {
      const programs =
        "files" in source ? source.files.map(({ program }) => program) : Object.keys(source.programs);
      expect([component.name, release.version, programs.toSorted()]).toEqual([
        component.name,
        release.version,
        component.programs.toSorted(),
      ]);
    }
  });

  test("everything that is fetched has a checksum of its publisher, over TLS", () => {
    const fetched = sources.flatMap(({ source }) => {
      if ("files" in source) return source.files.flatMap(({ url, checksums }) => [url, checksums]);
      return "archive" in source ? [source.archive.url, source.archive.checksums] : [];
    });
    expect(fetched.length).toBeGreaterThan(20);
    for (const url of fetched) expect(url).toMatch(/^https:\/\//);
  });

  test("has two minors of Kubernetes at least, so that one can be upgraded to the other", () => {
    const versions = componentCatalogue.find(({ name }) => name === "kubernetes")?.releases ?? [];
    const minors = new Set(versions.map(({ version }) => version.split(".").slice(0, 2).join(".")));
    expect([...minors]).toEqual(expect.arrayContaining(["1.36", "1.35", "1.34"]));
  });

  test("what Kubernetes stages has the same minor and patch", () => {
    const [first] = componentCatalogue.flatMap(({ name, releases }) =>
      name === "kubernetes" ? releases : [],
    );
    const go = first?.sources("arm64").find(({ by }) => by === "go");
    expect(go).toMatchObject({ version: "v1.36.4", stagingVersion: "v0.36.4" });
  });
});

describe("versions", () => {
  test("are compared by their numbers", () => {
    expect(["1.10.0", "1.9.2", "1.36.4", "1.36.10", "debian"].toSorted(compareVersions)).toEqual([
      "1.9.2",
      "1.10.0",
      "1.36.4",
      "1.36.10",
      "debian",
    ]);
    expect(compareVersions("1.36.3+k3s1", "1.36.3+k3s1")).toBe(0);
  });

  test("cannot lead out of a folder", () => {
    expect(["1.36.4", "1.36.3+k3s1", "debian"].every(isComponentVersion)).toBe(true);
    expect(["", "..", "../x", "a/b", ".hidden", "a b"].some(isComponentVersion)).toBe(false);
  });
});
