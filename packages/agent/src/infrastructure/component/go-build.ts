// Programs built from Go modules. Modules come through the Go module proxy and are compared with Go's checksum database;
// a refusal of either is final. The module is required by a wrapper module of ours, because what has `replace` lines in its
// own go.mod cannot be installed by name.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GoSource } from "@gpve/domain/component/component.ts";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { SourceWork } from "@gpve/domain/component/ports.ts";

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

export async function buildWithGo(
  source: GoSource,
  folder: string,
  work: SourceWork,
  { exec, env }: { readonly exec: Exec; readonly env: Readonly<Record<string, string>> },
): Promise<void> {
  const run = async (args: readonly string[]): Promise<string> => {
    try {
      // A build takes every core there is: whatever else runs here goes first.
      const { stdout } = await exec("nice", ["-n", "10", "go", ...args], {
        cwd: folder,
        env,
        signal: work.signal,
        timeoutMs: BUILD_TIMEOUT_MS,
        label: "go",
      });
      return stdout;
    } catch (cause) {
      throw new AppError(
        "internal.error",
        `cannot build ${source.module} ${source.version}: ${messageOf(cause)}; a Go toolchain of 1.21 or newer must be there (https://go.dev/dl, or Debian's golang-go from trixie on)`,
        { cause },
      );
    }
  };
  const wrapper = join(folder, "go.mod");
  const { module, version } = source;
  writeFileSync(wrapper, "module gpve-component\n");
  const downloaded = JSON.parse(await run(["mod", "download", "-json", `${module}@${version}`])) as {
    GoMod: string;
  };
  writeFileSync(wrapper, wrapperModule(source, readFileSync(downloaded.GoMod, "utf8")));
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
  { module, version, stagingVersion }: Pick<GoSource, "module" | "version" | "stagingVersion">,
  goMod: string,
): string {
  const go = /^go (\S+)$/m.exec(goMod)?.[1] ?? "1.21";
  const staged = [...goMod.matchAll(/^\s*(?:replace )?(\S+) => \.\/\S+$/gm)].map(([, name]) => name ?? "");
  const replaced =
    stagingVersion === undefined ? [] : staged.map((name) => `replace ${name} => ${name} ${stagingVersion}`);
  return [`module gpve-component`, "", `go ${go}`, "", `require ${module} ${version}`, ...replaced, ""].join(
    "\n",
  );
}

function linkerFlags({ stamps = {} }: GoSource): string {
  return ["-s", "-w", ...Object.entries(stamps).map(([name, value]) => `-X ${name}=${value}`)].join(" ");
}
