import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Component } from "@gpve/domain/component/component.ts";
import { forged, notHad } from "@gpve/domain/component/refusal.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { ComponentFolder } from "../../infrastructure/component/component-folder.ts";
import {
  type ComponentOperationDeps,
  ensureComponent,
  importComponentOperation,
  INSTALL_COMPONENT,
  installComponentOperation,
  verifyComponentOperation,
} from "./component-operations.ts";
import { componentRoutes } from "./component-routes.ts";
import { installedVersion } from "./find-component.ts";
import { obtainableVersion } from "./obtainable-version.ts";
import { nearestReleases, patchesFrom } from "./other-releases.ts";

const tools: Component = {
  name: "tools",
  about: "some tools",
  programs: ["tool"],
  proof: { program: "tool", args: ["--version"], pattern: "^tool v{version}$" },
  releases: ["1.1.0", "1.0.0"].map((version) => ({
    version,
    sources: () => [
      { by: "download", files: [] },
      { by: "go", module: "m", version: `v${version}`, programs: {}, minutes: 3 },
    ],
  })),
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-component-ops-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function depsOf(change: Partial<ComponentOperationDeps> = {}): ComponentOperationDeps {
  return {
    catalogue: [tools],
    store: new ComponentFolder(join(folder, "components"), systemClock),
    architecture: "amd64",
    // No way out to the publisher from here.
    obtain: async ({ by }, target, { say, progress }) => {
      if (by === "download") throw new AppError("internal.error", "no route to its publisher");
      progress(0.5, "half");
      say("built");
      writeFileSync(join(target, "tool"), "program");
    },
    findRefusal: async () => undefined,
    ask: async () => "tool v1.1.0\n",
    copyPrograms: async (_from, to) => writeFileSync(join(to, "tool"), "brought"),
    ...change,
  };
}

async function run(deps: ComponentOperationDeps, route: string, more: object): Promise<string> {
  const engine = testEngine();
  engine.engine.register(installComponentOperation(deps));
  engine.engine.register(importComponentOperation(deps));
  engine.engine.register(verifyComponentOperation(deps));
  await engine.engine.start();
  const routes = componentRoutes({ ...deps, engine: engine.engine });
  const handler = routes[
    `POST /gpve/nodes/{node}/components/{component}/${route}` as keyof typeof routes
  ] as (asked: object, ctx: RequestContext) => Promise<string>;
  const ctx = { actor: { authid: "root@pam" } } as RequestContext;
  const upid = await handler({ node: "n1", component: "tools", requestId: "r", ...more }, ctx);
  const ended = await engine.engine.wait(upid);
  const log = (engine.logs.lines.get(upid) ?? []).join("\n");
  await engine.engine.stop();
  return ended.state === "done" ? log : `${ended.state}: ${ended.error ?? ""}`;
}

describe("installing a component", () => {
  test("tries each way, and says what came of it", async () => {
    const deps = depsOf();
    const log = await run(deps, "install", {});
    expect(log).toContain("not by download: no route to its publisher");
    expect(log).toContain("about 3 min on two cores");
    expect(log).toContain("installed tools 1.1.0");
    expect(deps.store.get("tools", "1.1.0")?.origin).toBe("go");
    expect(readdirSync(join(folder, "components", ".work"))).toEqual([]);
    expect(await run(deps, "install", {})).toContain("is installed already");
  });

  test("for a cluster: what is there is taken as it was installed, and not when it was changed since", async () => {
    const deps = depsOf();
    await run(deps, "install", {});
    const wanted = { component: "tools", version: "1.1.0" };
    const ctx = { log: () => undefined } as unknown as StepContext;
    await expect(ensureComponent(deps, wanted, ctx)).resolves.toBeUndefined();
    writeFileSync(deps.store.program("tools", "1.1.0", "tool"), "forged");
    await expect(ensureComponent(deps, wanted, ctx)).rejects.toThrow(
      /tools 1\.1\.0 of this node cannot be used: .*SHA-256 is another.*component install tools 1\.1\.0/,
    );
    await run(deps, "install", {});
    await expect(ensureComponent(deps, wanted, ctx)).resolves.toBeUndefined();
  });

  test("says all reasons when no way leads there", async () => {
    const obtain = (): Promise<void> => Promise.reject(new AppError("internal.error", "no way"));
    const failed = await run(depsOf({ obtain }), "install", {});
    expect(failed).toMatch(/cannot install tools 1.1.0: download: no way; go: no way.*component import/);
  });

  test("does not take a program that says another version", async () => {
    const deps = depsOf({ ask: async () => "tool v1x1.0" });
    expect(await run(deps, "install", {})).toContain("says 'tool v1x1.0', which is not tools 1.1.0");
    expect(deps.store.list()).toEqual([]);
  });

  test("by a way that there is not is refused with those that there are", async () => {
    expect(await run(depsOf(), "install", { from: "debian" })).toContain("ways that there are: download, go");
  });

  test("of a version that nobody knows is refused with the list and how to get it", async () => {
    await expect(run(depsOf(), "install", { version: "9.9" })).rejects.toThrow(
      /tools 9.9 is not in the catalogue, which has 1.1.0, 1.0.0.*component import tools 9.9/,
    );
    await expect(run(depsOf(), "install", { version: ".." })).rejects.toThrow("is no version");
    await expect(run(depsOf(), "install", { component: "x" })).rejects.toThrow("there are tools");
  });

  test("ends done or undone, whatever happens", async () => {
    const report = await testSaga<ComponentOperationDeps>({
      prepare: () => {
        rmSync(join(folder, "components"), { recursive: true, force: true });
        return depsOf();
      },
      define: (engine, deps) => {
        engine.register(installComponentOperation(deps));
        return { type: INSTALL_COMPONENT, args: { component: "tools", version: "1.1.0" } };
      },
      check: (deps, outcome) => {
        if (outcome === "done") expect(deps.store.get("tools", "1.1.0")).toBeDefined();
        const work = join(folder, "components", ".work");
        expect(existsSync(work) ? readdirSync(work) : []).toEqual([]);
      },
    });
    expect(report.runs).toBeGreaterThan(5);
  });
});

/** Patches of two minors, some of which the module proxy refuses. */
function depsRefusing(refusedOnes: readonly string[], change: Partial<ComponentOperationDeps> = {}) {
  const versions = ["2.1.3", "2.1.2", "2.1.0", "2.0.1"];
  const many: Component = {
    ...tools,
    proof: { program: "tool", args: [], pattern: "v" },
    releases: versions.map((version) => ({
      version,
      sources: () => [{ by: "go", module: "m", version, programs: {}, minutes: 3 }],
    })),
  };
  const isRefusedOne = (source: object): boolean =>
    "version" in source && refusedOnes.includes(String(source.version));
  return depsOf({
    catalogue: [many],
    obtain: async (source, target) => {
      if (isRefusedOne(source)) throw notHad("m: 403 Forbidden");
      writeFileSync(join(target, "tool"), "program");
    },
    findRefusal: async (source) => (isRefusedOne(source) ? "m: 403 Forbidden" : undefined),
    ask: async () => "v",
    ...change,
  });
}

describe("a version that is refused", () => {
  const versionsOf = ({ store }: ComponentOperationDeps) => store.list().map(({ version }) => version);

  test.each([{}, { version: "2.1" }])(
    "is followed by the next older patch where %j is asked for",
    async (asked) => {
      const deps = depsRefusing(["2.1.3", "2.1.2"]);
      const log = await run(deps, "install", asked);
      expect(log).toContain("tools 2.1.3 was refused");
      expect(log).toMatch(
        /took tools 2.1.0 instead: cannot install tools 2.1.3: go: m: 403 Forbidden; cannot install tools 2.1.2/,
      );
      expect(versionsOf(deps)).toEqual(["2.1.0"]);
    },
  );

  test("is not followed by another minor, which is named", async () => {
    const deps = depsRefusing(["2.1.3", "2.1.2", "2.1.0"]);
    expect(await run(deps, "install", { version: "2.1" })).toMatch(
      /install tools 2.1.0: go: m: 403 Forbidden. The catalogue has no older patch of this minor. The nearest that can be had: gpvectl component install tools 2.0.1. Programs from elsewhere/,
    );
    expect(versionsOf(deps)).toEqual([]);
  });

  test("and was asked for itself stays refused, with the nearest that can be had", async () => {
    const deps = depsRefusing(["2.1.2", "2.1.3"]);
    expect(await run(deps, "install", { version: "2.1.2" })).toMatch(
      /cannot install tools 2.1.2: go: m: 403 Forbidden. The nearest that can be had: gpvectl component install tools 2.1.0/,
    );
    expect(versionsOf(deps)).toEqual([]);
    await run(deps, "install", { version: "2.0.1" });
    const none = depsRefusing(["2.1.3", "2.1.2", "2.1.0"], { store: deps.store });
    expect(await run(none, "install", { version: "2.1.0" })).toContain("tools 2.0.1 is on this node");
  });

  test("is not the same as one that is forged, or that nobody reaches: nothing older is taken", async () => {
    for (const err of [forged("m: checksum mismatch"), new AppError("internal.error", "no route")]) {
      const deps = depsRefusing([], { obtain: () => Promise.reject(err) });
      expect(await run(deps, "install", { version: "2.1" })).toMatch(
        /^failed: cannot install tools 2.1.3: go/,
      );
      expect(versionsOf(deps)).toEqual([]);
    }
  });

  test("is not what a cluster of its minor is made of, where an older patch can be had in time", async () => {
    const { signal } = new AbortController();
    const deps = depsRefusing(["2.1.3"]);
    expect(await obtainableVersion(deps, "tools", "2.1.3", signal)).toBe("2.1.2");
    const none = depsRefusing(["2.1.3", "2.1.2", "2.1.0"]);
    expect(await obtainableVersion(none, "tools", "2.1.3", signal)).toBe("2.1.3");
    const slow = depsRefusing([], { findRefusal: () => Promise.reject(new Error("too slow")) });
    expect(await obtainableVersion(slow, "tools", "2.1.3", signal)).toBe("2.1.3");
    await expect(obtainableVersion(slow, "tools", "2.1.3", AbortSignal.abort())).rejects.toThrow("too slow");
    await run(deps, "install", { version: "2.1.0" });
    const here = depsRefusing(["2.1.3", "2.1.2"], { store: deps.store });
    expect(await obtainableVersion(here, "tools", "2.1.3", signal)).toBe("2.1.0");
  });

  test("has neighbours by distance, and no older patches where it is no patch", () => {
    const [many] = depsRefusing([]).catalogue;
    expect(nearestReleases(many ?? tools, "2.1.2")).toEqual(["2.1.3", "2.1.0", "2.0.1"]);
    expect(patchesFrom(many ?? tools, "debian")).toEqual(["debian"]);
    expect(patchesFrom(many ?? tools, "2.1.2")).toEqual(["2.1.2", "2.1.0"]);
  });
});

describe("components that are brought", () => {
  test("may have any version, are listed and can be verified", async () => {
    const deps = depsOf({ ask: async () => "tool v2.0.0" });
    await run(deps, "import", { version: "2.0.0", path: "/opt/tools" });
    expect(await run(deps, "verify", {})).toContain("is what was installed");
    const rows = componentRoutes({ ...deps, engine: testEngine().engine })[
      "GET /gpve/nodes/{node}/components"
    ];
    const listed = await rows({ node: "n1" }, {} as RequestContext);
    expect(listed.map(({ version, installed }) => [version, installed])).toEqual([
      ["1.1.0", undefined],
      ["1.0.0", undefined],
      ["2.0.0", "import"],
    ]);
    expect(installedVersion(deps.store, "tools", "2.0")).toBe("2.0.0");
    expect(installedVersion(deps.store, "tools", "1")).toBeUndefined();
  });

  test("that were changed since are told", async () => {
    const deps = depsOf();
    await run(deps, "install", {});
    writeFileSync(deps.store.program("tools", "1.1.0", "tool"), "changed");
    expect(await run(deps, "verify", { version: "1.1.0" })).toMatch(
      /is not what was installed.*install tools 1.1.0/,
    );
    await expect(run(deps, "verify", { version: "3" })).rejects.toThrow("tools 3 is not installed");
  });
});
