// Programs built from Go modules. Modules come through the Go module proxy and are compared with Go's checksum database;
// a refusal of either is final. The module is required by a wrapper module of ours, because what has `replace` lines in its
// own go.mod cannot be installed by name.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GoSource } from "@gpve/domain/component/component.ts";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { SourceWork } from "@gpve/domain/component/ports.ts";
import { type Go, goFailure, requireModules, stagedModules } from "./go-modules.ts";

const BUILD_TIMEOUT_MS = 90 * 60_000;
/** What of our own environment Go needs to find its caches, the proxy and certificates. */
const PASSED =
  /^(?:HOME|XDG_CACHE_HOME|GO[A-Z0-9_]*|(?:HTTPS?|NO|https?|no)_(?:PROXY|proxy)|SSL_CERT_(?:FILE|DIR))$/;
/** Nothing may switch the checks off. */
const REFUSED = new Set(["GONOSUMDB", "GONOSUMCHECK", "GOINSECURE", "GOFLAGS", "GOPRIVATE"]);
const isOff = (name: string, value: string): boolean => name === "GOSUMDB" && value === "off";

export function goEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const passed = Object.entries(env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && PASSED.test(entry[0]) && !REFUSED.has(entry[0]) && !isOff(entry[0], entry[1]),
  );
  return {
    ...MINIMAL_ENV,
    PATH: `/usr/local/go/bin:${MINIMAL_ENV["PATH"] ?? ""}`,
    HOME: "/root",
    ...Object.fromEntries(passed),
    CGO_ENABLED: "0",
    GOFLAGS: "-mod=mod",
  };
}

export interface GoDeps {
  readonly exec: Exec;
  readonly env: Readonly<Record<string, string>>;
}

/** Go's command in a folder. */
function goIn(source: GoSource, folder: string, signal: AbortSignal, { exec, env }: GoDeps) {
  return async (args: readonly string[], okCodes: readonly number[] = [0]): Promise<string> => {
    try {
      // A build takes every core there is: whatever else runs here goes first.
      const { stdout } = await exec("nice", ["-n", "10", "go", ...args], {
        cwd: folder,
        env,
        signal,
        okCodes,
        timeoutMs: BUILD_TIMEOUT_MS,
        label: "go",
      });
      return stdout;
    } catch (cause) {
      const message = `cannot build ${source.module} ${source.version}: ${messageOf(cause)}`;
      const known = goFailure(message);
      if (known.code !== "internal.error") throw known;
      throw new AppError(
        "internal.error",
        `${message}; a Go toolchain of 1.21 or newer must be there (https://go.dev/dl, or Debian's golang-go from trixie on)`,
        { cause },
      );
    }
  };
}

/** Fails with the reason where a module that it is built from cannot be had. */
export async function checkWithGo(
  source: GoSource,
  folder: string,
  signal: AbortSignal,
  deps: GoDeps,
): Promise<string> {
  const run = goIn(source, folder, signal, deps);
  // Go ends with 1 when it prints why a module cannot be had.
  const go: Go = (args) => run(args, [0, 1]);
  writeFileSync(join(folder, "go.mod"), "module gpve-component\n");
  return requireModules(source, go);
}

export async function buildWithGo(
  source: GoSource,
  folder: string,
  work: SourceWork,
  deps: GoDeps,
): Promise<void> {
  const run = goIn(source, folder, work.signal, deps);
  const { module, version } = source;
  const goMod = await checkWithGo(source, folder, work.signal, deps);
  writeFileSync(join(folder, "go.mod"), wrapperModule(source, goMod));
  const programs = Object.entries(source.programs);
  for (const [index, [program, path]] of programs.entries()) {
    work.progress(index / programs.length, `building ${program}`);
    work.say(`building ${program} of ${module} ${version}`);
    const make = source.areTests === true ? ["test", "-c"] : ["build"];
    await run([...make, "-trimpath", "-o", program, "-ldflags", linkerFlags(source), path]);
  }
}

/** Requires the module; what its own go.mod takes from its repository is taken from the published modules. */
export function wrapperModule(
  {
    module,
    version,
    stagingVersion,
    hasForks,
  }: Pick<GoSource, "module" | "version" | "stagingVersion" | "hasForks">,
  goMod: string,
): string {
  const go = /^go (\S+)$/m.exec(goMod)?.[1] ?? "1.21";
  const staged = stagedModules(goMod);
  const replaced =
    stagingVersion === undefined ? [] : staged.map((name) => `replace ${name} => ${name} ${stagingVersion}`);
  const forks = hasForks === true ? forksIn(goMod) : [];
  const lines = [`require ${module} ${version}`, ...replaced, ...forks];
  return ["module gpve-component", "", `go ${go}`, "", ...lines, ""].join("\n");
}

/** Only the main module's count, which is the wrapper. */
function forksIn(goMod: string): string[] {
  const text = goMod.replaceAll(/\/\/.*$/gm, "");
  const blocks = [...text.matchAll(/^(replace|exclude) (?:\(([^)]*)\)|(.+))$/gm)];
  return blocks.flatMap(([, word = "", block = "", line = ""]) =>
    `${block}\n${line}`
      .split("\n")
      .map((each) => each.trim())
      .filter((each) => each !== "" && !each.includes("=> ."))
      .map((each) => `${word} ${each}`),
  );
}

function linkerFlags({ stamps = {} }: GoSource): string {
  return ["-s", "-w", ...Object.entries(stamps).map(([name, value]) => `-X ${name}=${value}`)].join(" ");
}
