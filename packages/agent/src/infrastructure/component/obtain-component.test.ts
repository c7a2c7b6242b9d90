import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ComponentSource, GoSource } from "@gpve/domain/component/component.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isForged, isNotHad } from "@gpve/domain/component/refusal.ts";
import { type Exec, exec } from "@gpve/kit/exec.ts";
import type { SourceWork } from "@gpve/domain/component/ports.ts";
import { buildWithGo, goEnvironment, wrapperModule } from "./go-build.ts";
import { findRefusal, obtainComponent } from "./obtain-component.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-obtain-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const lines: string[] = [];
const work: SourceWork = {
  signal: new AbortController().signal,
  say: (line) => lines.push(line),
  progress: () => undefined,
};
const sha256 = (content: string | Buffer): string => createHash("sha256").update(content).digest("hex");

/** A publisher whose files lie in a folder. */
function publisher(files: Readonly<Record<string, string>>, texts: Readonly<Record<string, string>>) {
  return obtainComponent({
    exec,
    env: {},
    fetchText: async (url) => texts[url] ?? "",
    fetcher: {
      download: async (url, path) => {
        copyFileSync(files[url] ?? "/nothing", path);
        return 1;
      },
    },
    hash: async (path) => sha256(readFileSync(path)),
  });
}

describe("programs from their publisher", () => {
  const source: ComponentSource = {
    by: "download",
    files: [{ program: "tool", url: "https://x/tool", checksums: "https://x/tool.sha256" }],
  };

  test("are taken when the checksum is right", async () => {
    const file = join(folder, "remote");
    writeFileSync(file, "program");
    const obtain = publisher({ "https://x/tool": file }, { "https://x/tool.sha256": sha256("program") });
    await obtain(source, folder, work);
    expect(readFileSync(join(folder, "tool"), "utf8")).toBe("program");
  });

  test("are refused when it is wrong, or when there is none", async () => {
    const file = join(folder, "remote");
    writeFileSync(file, "forged");
    const forged = publisher({ "https://x/tool": file }, { "https://x/tool.sha256": sha256("program") });
    await expect(forged(source, folder, work)).rejects.toThrow(
      /checksum mismatch: https:\/\/x\/tool has sha256/,
    );
    await expect(publisher({}, {})(source, folder, work)).rejects.toThrow("has no checksum for tool");
  });

  test("come out of an archive", async () => {
    mkdirSync(join(folder, "t/bin"), { recursive: true });
    writeFileSync(join(folder, "t/bin/tool"), "program");
    const archive = join(folder, "a.tgz");
    await exec("tar", ["-czf", archive, "-C", join(folder, "t"), "bin"]);
    const url = "https://x/a.tgz";
    const obtain = publisher({ [url]: archive }, { sums: `${sha256(readFileSync(archive))}  a.tgz\n` });
    const target = join(folder, "target");
    mkdirSync(target);
    await obtain(
      { by: "download", archive: { url, checksums: "sums" }, programs: { tool: "bin/tool" } },
      target,
      work,
    );
    expect(readFileSync(join(target, "tool"), "utf8")).toBe("program");
  });
});

describe("programs of Debian packages", () => {
  test("are copied out of what apt fetched", async () => {
    const apt: Exec = async (program, args, options) => {
      if (program === "dpkg-deb") {
        mkdirSync(join(args[2] ?? "", "usr/bin"), { recursive: true });
        writeFileSync(join(args[2] ?? "", "usr/bin/tool"), "from Debian");
      }
      const stdout = args.includes("--print-uris") ? "'http://d/tool.deb' tool_1.deb 1 SHA256:aa\n" : "";
      return { code: 0, stdout, stderr: String(options?.cwd ?? "") };
    };
    const obtain = obtainComponent({
      exec: apt,
      env: {},
      fetchText: () => Promise.reject(new Error("not asked")),
      fetcher: { download: () => Promise.reject(new Error("not asked")) },
      hash: () => Promise.reject(new Error("not asked")),
    });
    await obtain({ by: "debian", packages: ["tool"], programs: { tool: "usr/bin/tool" } }, folder, work);
    expect(readFileSync(join(folder, "tool"), "utf8")).toBe("from Debian");
  });
});

describe("programs built from Go modules", () => {
  const source: GoSource = {
    by: "go",
    module: "k8s.io/kubernetes",
    version: "v1.36.4",
    programs: { kubelet: "k8s.io/kubernetes/cmd/kubelet" },
    stagingVersion: "v0.36.4",
    stamps: { "v.gitVersion": "v1.36.4" },
    minutes: 8,
  };
  const goMod = [
    "module k8s.io/kubernetes",
    "go 1.26.0",
    "replace (",
    "\tk8s.io/api => ./staging/src/k8s.io/api",
    "\tk8s.io/apiserver => ./staging/src/k8s.io/apiserver",
    "\texample.org/other => example.org/fork v1.0.0",
    ")",
  ].join("\n");

  test("need a wrapper that takes what is staged from the published modules", () => {
    expect(wrapperModule(source, goMod).split("\n")).toEqual([
      "module gpve-component",
      "",
      "go 1.26.0",
      "",
      "require k8s.io/kubernetes v1.36.4",
      "replace k8s.io/api => k8s.io/api v0.36.4",
      "replace k8s.io/apiserver => k8s.io/apiserver v0.36.4",
      "",
    ]);
    expect(wrapperModule({ module: "m", version: "v1" }, "module m\n")).toContain("go 1.21");
  });

  test("take the forks along that their publisher builds them with, where they say so", () => {
    const own = [
      "module m",
      "replace (",
      "\texample.org/a => example.org/fork v1.0.0 // ours",
      "\texample.org/b => ./b",
      ")",
      "replace example.org/c => example.org/d v1.1.0",
      "// why",
      "exclude example.org/e v3.0.83+incompatible",
    ].join("\n");
    const lines = wrapperModule({ module: "m", version: "v1", hasForks: true }, own).split("\n");
    expect(lines.slice(5)).toEqual([
      "replace example.org/a => example.org/fork v1.0.0",
      "replace example.org/c => example.org/d v1.1.0",
      "exclude example.org/e v3.0.83+incompatible",
      "",
    ]);
    expect(wrapperModule({ module: "m", version: "v1" }, own)).not.toContain("example.org");
  });

  test("are built one after the other, with their version in them", async () => {
    const calls: (readonly string[])[] = [];
    writeFileSync(join(folder, "remote.mod"), goMod);
    const go: Exec = async (_program, args) => {
      calls.push(args.slice(3));
      const stdout = args.includes("-json") ? JSON.stringify({ GoMod: join(folder, "remote.mod") }) : "";
      return { code: 0, stdout, stderr: "" };
    };
    await buildWithGo(source, folder, work, { exec: go, env: {} });
    expect(calls.at(-1)).toEqual([
      "build",
      "-trimpath",
      "-o",
      "kubelet",
      "-ldflags",
      "-s -w -X v.gitVersion=v1.36.4",
      "k8s.io/kubernetes/cmd/kubelet",
    ]);
    expect(existsSync(join(folder, "go.mod"))).toBe(true);
  });

  const staged = [
    "module k8s.io/kubernetes",
    "require (",
    "\tk8s.io/api v0.0.0",
    "\tk8s.io/kube-proxy v0.0.0 // indirect",
    ")",
    "replace (",
    "\tk8s.io/api => ./staging/src/k8s.io/api",
    "\tk8s.io/kube-proxy => ./staging/src/k8s.io/kube-proxy",
    "\tk8s.io/sample-cli-plugin => ./staging/src/k8s.io/sample-cli-plugin",
    ")",
  ].join("\n");

  /** As Go answers of modules: `refusals` has why one cannot be had; "" = the list does not say. */
  function proxy(refusals: Readonly<Record<string, string>>, built: string[] = []): Exec {
    const modFile = join(folder, "remote.mod");
    writeFileSync(modFile, staged);
    const answer = (name: string): object => {
      const [Path = "", Version = ""] = name.split("@");
      const why = refusals[Path];
      if (why === undefined) return { Path, Version, GoMod: modFile };
      return why === "" ? { Path, Version } : { Path, Version, Error: { Err: why } };
    };
    return async (_program, [, , , ...args]) => {
      const names = args.filter((arg) => arg.includes("@"));
      if (args[0] === "mod") {
        const Error = `${names[0]}: verifying go.mod: 404 Not Found`;
        return { code: 1, stdout: JSON.stringify({ Error }, undefined, 2), stderr: "" };
      }
      if (args[0] === "build") built.push(args.at(-1) ?? "");
      const said = names.map((name) => JSON.stringify(answer(name), undefined, 2)).join("\n");
      return { code: 0, stdout: said, stderr: "" };
    };
  }

  const caught = (exec: Exec): Promise<unknown> =>
    buildWithGo(source, folder, work, { exec, env: {} }).then(
      () => undefined,
      (err: unknown) => err,
    );

  test("are not begun where the proxy refuses a module that they need", async () => {
    const built: string[] = [];
    const why = "k8s.io/kube-proxy@v0.36.4: reading https://p: 403 Forbidden\n\tserver response: no";
    const err = await caught(proxy({ "k8s.io/kube-proxy": why }, built));
    expect([isNotHad(err), built]).toEqual([true, []]);
    expect(String(err)).toContain("kube-proxy@v0.36.4: reading https://p: 403 Forbidden server response: no");
    // Replaced, but required by nobody.
    expect(await caught(proxy({ "k8s.io/sample-cli-plugin": why }, built))).toBeUndefined();
    expect(built).toEqual(["k8s.io/kubernetes/cmd/kubelet"]);
  });

  test("are refused too where nobody vouches for a module, and not taken where it is another", async () => {
    const unknown = await caught(proxy({ "k8s.io/api": "", "k8s.io/kube-proxy": "" }));
    expect([isNotHad(unknown), String(unknown)]).toEqual([
      true,
      expect.stringMatching(
        /k8s.io\/api@v0.36.4: verifying go.mod: 404 Not Found; neither can k8s.io\/kube-p/,
      ),
    ]);
    const other = await caught(proxy({ "k8s.io/kubernetes": "verifying: checksum mismatch SECURITY ERROR" }));
    expect([isNotHad(other), isForged(other)]).toEqual([false, true]);
    const away = await caught(proxy({ "k8s.io/kubernetes": "dial tcp: no such host" }));
    expect([isNotHad(away), isForged(away)]).toEqual([false, false]);
  });

  test("can be asked for without building them, and what is fetched too", async () => {
    const find = (exec: Exec, texts: (url: string) => Promise<string>) =>
      findRefusal({
        exec,
        env: {},
        fetchText: texts,
        fetcher: { download: () => Promise.reject(new Error("not asked")) },
        hash: () => Promise.reject(new Error("not asked")),
      });
    const { signal } = new AbortController();
    const ok = find(proxy({}), async () => "sum");
    const plain = { by: "download" as const, files: [{ program: "t", url: "u", checksums: "u.sha256" }] };
    expect(await ok(source, signal)).toBeUndefined();
    expect(await ok(plain, signal)).toBeUndefined();
    const gone = find(proxy({ "k8s.io/api": "x: 410 Gone" }), (url) =>
      Promise.reject(new AppError("operation.failed", `no ${url}`, { data: { status: 404 } })),
    );
    expect(await gone(source, signal)).toContain("410 Gone");
    const archive = { by: "download" as const, archive: { url: "a", checksums: "a.sum" }, programs: {} };
    expect(await gone(archive, signal)).toBe("a.sum: no a.sum");
    await expect(
      obtainComponent({
        exec,
        env: {},
        fetchText: () => Promise.reject(new AppError("operation.failed", "no", { data: { status: 404 } })),
        fetcher: { download: () => Promise.reject(new Error("not asked")) },
        hash: () => Promise.reject(new Error("not asked")),
      })(plain, folder, work),
    ).rejects.toSatisfy(isNotHad);
  });

  test("that fail say what is needed", async () => {
    const go: Exec = () => Promise.reject(new AppError("feature.unsupported", "cannot run nice"));
    await expect(buildWithGo(source, folder, work, { exec: go, env: {} })).rejects.toThrow(
      /cannot build k8s.io\/kubernetes v1.36.4: cannot run nice; a Go toolchain/,
    );
  });

  test("nothing of our environment switches Go's checks off", () => {
    const env = goEnvironment({
      HOME: "/h",
      GOPROXY: "https://proxy",
      GOINSECURE: "*",
      GONOSUMDB: "*",
      GONOSUMCHECK: "1",
      GOPRIVATE: "*",
      GOSUMDB: "off",
      GOFLAGS: "-insecure",
      SECRET: "x",
    });
    expect(env).toMatchObject({
      HOME: "/h",
      GOPROXY: "https://proxy",
      GOFLAGS: "-mod=mod",
      CGO_ENABLED: "0",
    });
    expect(Object.keys(env)).not.toEqual(expect.arrayContaining(["SECRET"]));
    expect(env["GOINSECURE"] ?? env["GONOSUMDB"] ?? env["GONOSUMCHECK"]).toBeUndefined();
    expect(env["GOPRIVATE"] ?? env["GOSUMDB"]).toBeUndefined();
    // Another place for the same checks is no way around them.
    expect(goEnvironment({ GOSUMDB: "sum.example https://sums.example" })["GOSUMDB"]).toContain(
      "sums.example",
    );
  });
});
