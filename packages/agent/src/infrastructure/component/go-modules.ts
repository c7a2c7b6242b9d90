// Whether the Go module proxy has the modules that programs are built from, and Go's checksum database vouches for them. Only
// descriptions are fetched: it takes seconds, where a build would find out after minutes.
import { readFileSync } from "node:fs";
import type { GoSource } from "@gpve/domain/component/component.ts";
import { forged, notHad } from "@gpve/domain/component/refusal.ts";
import { AppError } from "@gpve/contracts/errors.ts";

/** Runs Go's command; what it prints, also when it ends with 1. */
export type Go = (args: readonly string[]) => Promise<string>;

interface Module {
  readonly path: string;
  /** Its go.mod as a file; absent: it cannot be had, or nobody vouches for it. */
  readonly goMod?: string;
  readonly reason?: string;
}

/** Its go.mod, when each module that is needed can be had; else why not. */
export async function requireModules(source: GoSource, go: Go): Promise<string> {
  const [main] = await modulesOf([`${source.module}@${source.version}`], go);
  if (main?.goMod === undefined) throw await missing(source, [main ?? { path: source.module }], go);
  const goMod = readFileSync(main.goMod, "utf8");
  const { stagingVersion } = source;
  if (stagingVersion === undefined) return goMod;
  const needed = requiredModules(goMod, stagedModules(goMod)).map((name) => `${name}@${stagingVersion}`);
  const lacking = (await modulesOf(needed, go)).filter((module) => module.goMod === undefined);
  if (lacking.length > 0) throw await missing(source, lacking, go);
  return goMod;
}

/** What its go.mod takes from folders of its own repository. */
export function stagedModules(goMod: string): string[] {
  return [...goMod.matchAll(/^\s*(?:replace )?(\S+) => \.\/\S+$/gm)].map(([, name]) => name ?? "");
}

/** What is only replaced, and required by nobody, is never read. */
function requiredModules(goMod: string, names: readonly string[]): string[] {
  const required = new Set(
    [...goMod.matchAll(/^\s*(?:require )?(\S+) v\d\S*(?: \/\/.*)?$/gm)].map(([, name]) => name),
  );
  return names.filter((name) => required.has(name));
}

/** As an error that says whether an older version may do. */
export function goFailure(message: string): AppError {
  if (/SECURITY ERROR|checksum mismatch/.test(message)) return forged(message);
  if (/\b(?:403 Forbidden|404 Not Found|410 Gone)\b|unknown revision/.test(message)) return notHad(message);
  return new AppError("internal.error", message);
}

async function missing({ module, version }: GoSource, lacking: readonly Module[], go: Go): Promise<AppError> {
  const [first, ...others] = lacking;
  const reason = first?.reason ?? (await reasonOf(first?.path ?? module, go));
  const more = others.map(({ path }) => path).join(", ");
  const also = more === "" ? "" : `; neither can ${more}`;
  return goFailure(`${module} ${version} cannot be built: ${reason}${also}`);
}

/** The list does not say why a go.mod is not there; fetching the one module does. */
async function reasonOf(module: string, go: Go): Promise<string> {
  const [answer] = objectsIn(await go(["mod", "download", "-json", module]));
  const said = answer?.["Error"];
  return oneLine(typeof said === "string" ? said : `Go says nothing of ${module}`);
}

async function modulesOf(names: readonly string[], go: Go): Promise<Module[]> {
  if (names.length === 0) return [];
  const answers = objectsIn(await go(["list", "-m", "-e", "-json", ...names]));
  return names.map((name, index) => {
    const { GoMod, Error: error } = answers[index] ?? {};
    const said = (error as { readonly Err?: unknown } | undefined)?.Err;
    return {
      path: name,
      ...(typeof GoMod === "string" ? { goMod: GoMod } : {}),
      ...(typeof said === "string" ? { reason: oneLine(said) } : {}),
    };
  });
}

/** Go prints one object after the other, each beginning and ending at the edge of a line. */
function objectsIn(text: string): Readonly<Record<string, unknown>>[] {
  return text
    .split(/^(?=\{)/m)
    .filter((part) => part.startsWith("{"))
    .map((part) => JSON.parse(part) as Readonly<Record<string, unknown>>);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}
