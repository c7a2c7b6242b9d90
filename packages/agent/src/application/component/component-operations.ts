// Components come to a node by one operation, whatever they come from: obtained into a work folder, asked for their
// version, then taken into the store of components.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  type Architecture,
  type Component,
  type ComponentOrigin,
  type ComponentSource,
} from "@gpve/domain/component/component.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { catalogued, releaseOf } from "./find-component.ts";
import { nearestReleases, patchesFrom } from "./other-releases.ts";
import type { Ask, ComponentStore, FindRefusal, Obtain } from "@gpve/domain/component/ports.ts";
import { isForged, isNotHad, notHad } from "@gpve/domain/component/refusal.ts";

export const INSTALL_COMPONENT = "componentinstall";
export const IMPORT_COMPONENT = "componentimport";
export const VERIFY_COMPONENT = "componentverify";

export interface InstallArgs {
  readonly component: string;
  readonly version: string;
  /** Nobody asked for this very version: an older patch of its minor does, where this one cannot be had. */
  readonly orOlder?: true;
  /** Only this way; undefined = each in turn. */
  readonly from?: ComponentOrigin;
}

export interface ImportArgs {
  readonly component: string;
  readonly version: string;
  /** Folder on the node that has the programs. */
  readonly path: string;
}

export interface VerifyArgs {
  readonly component: string;
  readonly version: string;
}

export interface ComponentOperationDeps {
  readonly catalogue: readonly Component[];
  readonly store: ComponentStore;
  readonly obtain: Obtain;
  readonly findRefusal: FindRefusal;
  readonly ask: Ask;
  readonly architecture: Architecture;
  /** Copies programs out of a folder of the host. */
  readonly copyPrograms: (from: string, to: string, programs: readonly string[]) => Promise<void>;
}

type Ctx<A> = StepContext<A, Record<string, never>>;

export function installComponentOperation(
  deps: ComponentOperationDeps,
): OperationDefinition<InstallArgs, Record<string, never>> {
  const { store } = deps;
  return {
    type: INSTALL_COMPONENT,
    onCrash: "undo",
    steps: [
      {
        name: "install",
        run: async (ctx) => {
          const component = catalogued(deps.catalogue, ctx.args.component);
          await (ctx.args.orOlder === true
            ? installNewest(deps, component, ctx)
            : installOne(deps, component, ctx));
        },
        undo: (ctx) => store.discard(workOf(ctx)),
      },
    ],
  };
}

/** Brings it where it is not there; for other operations that need it too. */
export async function ensureComponent(
  deps: ComponentOperationDeps,
  { component, version }: Pick<InstallArgs, "component" | "version">,
  ctx: StepContext,
): Promise<void> {
  if (deps.store.get(component, version) !== undefined) {
    const faults = await deps.store.faults(component, version);
    if (faults.length === 0) return;
    throw new AppError(
      "object.conflict",
      `${component} ${version} of this node cannot be used: ${faults.join("; ")}. Have it installed again: gpvectl component install ${component} ${version}`,
    );
  }
  const known = catalogued(deps.catalogue, component);
  ctx.log(`${component} ${version} is not on this node: it is brought first`);
  await installOne(deps, known, withArgs(ctx, { component, version }));
}

/** The newest patch that can be had: whatever refuses one says so, and the next older is tried. */
async function installNewest(
  deps: ComponentOperationDeps,
  component: Component,
  ctx: Ctx<InstallArgs>,
): Promise<void> {
  const [wanted = "", ...older] = patchesFrom(component, ctx.args.version);
  const reasons: string[] = [];
  for (const version of [wanted, ...older]) {
    try {
      await alone(deps, component, withArgs(ctx, { ...ctx.args, version }));
      if (version !== wanted) ctx.log(`took ${component.name} ${version} instead: ${reasons.join("; ")}`);
      return;
    } catch (err) {
      if (ctx.signal.aborted || !isNotHad(err)) throw err;
      reasons.push(messageOf(err));
      ctx.log(`${component.name} ${version} was refused; an older patch of its minor would do`);
    }
  }
  throw new AppError(
    "object.not_found",
    `${reasons.join("; ")}. The catalogue has no older patch of this minor${await elsewhereText(deps, component, ctx)}`,
  );
}

/** This very version. */
async function installOne(
  deps: ComponentOperationDeps,
  component: Component,
  ctx: Ctx<InstallArgs>,
): Promise<void> {
  try {
    await alone(deps, component, ctx);
  } catch (err) {
    if (ctx.signal.aborted || !isNotHad(err)) throw err;
    throw new AppError("object.not_found", `${messageOf(err)}${await elsewhereText(deps, component, ctx)}`, {
      cause: err,
    });
  }
}

async function elsewhereText(
  deps: ComponentOperationDeps,
  component: Component,
  ctx: Ctx<InstallArgs>,
): Promise<string> {
  return `${await nearestText(deps, component, ctx)}. ${importText(component, ctx.args.version)}`;
}

function importText({ name }: Component, version: string): string {
  return `Programs from elsewhere: gpvectl component import ${name} ${version} --from FOLDER`;
}

async function nearestText(
  deps: ComponentOperationDeps,
  component: Component,
  { args: { version, from }, signal }: Ctx<InstallArgs>,
): Promise<string> {
  const { name } = component;
  for (const other of nearestReleases(component, version)) {
    if (deps.store.get(name, other) !== undefined) return `. ${name} ${other} is on this node`;
    const sources = releaseOf(component, other).sources(deps.architecture);
    for (const source of sources.filter(({ by }) => from === undefined || by === from))
      if ((await deps.findRefusal(source, signal)) === undefined)
        return `. The nearest that can be had: gpvectl component install ${name} ${other}`;
  }
  return "";
}

/** One installation of a version at a time. */
function alone(deps: ComponentOperationDeps, component: Component, ctx: Ctx<InstallArgs>): Promise<void> {
  return deps.store.alone(component.name, ctx.args.version, ctx.signal, () => install(deps, component, ctx));
}

function withArgs(ctx: StepContext | Ctx<InstallArgs>, args: InstallArgs): Ctx<InstallArgs> {
  return { ...ctx, args } as unknown as Ctx<InstallArgs>;
}

async function install(
  deps: ComponentOperationDeps,
  component: Component,
  ctx: Ctx<InstallArgs>,
): Promise<void> {
  const { store } = deps;
  const { version, from } = ctx.args;
  const { name } = component;
  if (store.get(name, version) !== undefined && (await store.faults(name, version)).length === 0) {
    ctx.log(`${name} ${version} is installed already, and is what was installed`);
    return;
  }
  const failures: { readonly by: string; readonly err: unknown }[] = [];
  for (const source of sourcesOf(deps, component, version, from)) {
    try {
      await obtainAndPut(deps, component, source, ctx);
      return;
    } catch (err) {
      if (ctx.signal.aborted) throw err;
      failures.push({ by: source.by, err });
      ctx.log(`not by ${source.by}: ${messageOf(err)}`);
    } finally {
      store.discard(workOf(ctx));
    }
  }
  const reasons = failures.map(({ by, err }) => `${by}: ${messageOf(err)}`).join("; ");
  const message = `cannot install ${name} ${version}: ${reasons}`;
  // Whoever forges one version must not have an older one installed by it.
  const isOnlyRefused =
    failures.some(({ err }) => isNotHad(err)) && !failures.some(({ err }) => isForged(err));
  if (isOnlyRefused) throw notHad(message);
  throw new AppError("internal.error", `${message}. ${importText(component, version)}`);
}

async function obtainAndPut(
  deps: ComponentOperationDeps,
  component: Component,
  source: ComponentSource,
  ctx: Ctx<InstallArgs>,
): Promise<void> {
  const { version } = ctx.args;
  if (source.by === "go")
    ctx.log(
      `building ${component.name} ${version} from Go modules: ${source.minutes === undefined ? "some minutes" : `about ${source.minutes} min`} on two cores with nothing cached`,
    );
  const folder = deps.store.workFolder(workOf(ctx));
  await deps.obtain(source, folder, {
    signal: ctx.signal,
    say: (line) => ctx.log(line),
    progress: (fraction, text) => ctx.progress(fraction, text),
  });
  await take(deps, component, { version, origin: source.by, folder }, ctx);
}

export function importComponentOperation(
  deps: ComponentOperationDeps,
): OperationDefinition<ImportArgs, Record<string, never>> {
  const { store } = deps;
  return {
    type: IMPORT_COMPONENT,
    onCrash: "undo",
    steps: [
      {
        name: "import",
        run: async (ctx) => {
          const { version, path } = ctx.args;
          const component = catalogued(deps.catalogue, ctx.args.component);
          await store.alone(component.name, version, ctx.signal, async () => {
            const folder = store.workFolder(workOf(ctx));
            await deps.copyPrograms(path, folder, component.programs);
            await take(deps, component, { version, origin: "import", folder }, ctx);
            store.discard(workOf(ctx));
          });
        },
        undo: (ctx) => store.discard(workOf(ctx)),
      },
    ],
  };
}

export function verifyComponentOperation(
  deps: Pick<ComponentOperationDeps, "store">,
): OperationDefinition<VerifyArgs, Record<string, never>> {
  return {
    type: VERIFY_COMPONENT,
    steps: [
      {
        name: "verify",
        run: async (ctx) => {
          const { component, version } = ctx.args;
          const faults = await deps.store.faults(component, version);
          if (faults.length > 0)
            throw new AppError(
              "request.invalid",
              `${faults.join("; ")}. Bring it again: gpvectl component install ${component} ${version}`,
            );
          ctx.log(`every program of ${component} ${version} is what was installed`);
        },
      },
    ],
  };
}

async function take(
  deps: ComponentOperationDeps,
  component: Component,
  { version, origin, folder }: { version: string; origin: ComponentOrigin; folder: string },
  ctx: Ctx<unknown>,
): Promise<void> {
  await requireVersion(deps.ask, component, version, folder);
  const { programs } = await deps.store.put(
    { name: component.name, version, origin },
    folder,
    component.programs,
  );
  for (const [program, { sha256 }] of Object.entries(programs)) ctx.log(`${program}: SHA-256 ${sha256}`);
  ctx.log(`installed ${component.name} ${version}`);
}

/** Debian's are whatever Debian has. */
async function requireVersion(
  ask: Ask,
  { name, proof }: Component,
  version: string,
  folder: string,
): Promise<void> {
  if (proof === undefined) return;
  const said = (await ask(`${folder}/${proof.program}`, proof.args)).trim();
  const escaped = version.replaceAll(/[.+]/g, String.raw`\$&`);
  if (!new RegExp(proof.pattern.replace("{version}", escaped)).test(said))
    throw new AppError(
      "request.invalid",
      `${proof.program} says '${said.slice(0, 80)}', which is not ${name} ${version}: it is not used`,
    );
}

function sourcesOf(
  deps: ComponentOperationDeps,
  component: Component,
  version: string,
  from: ComponentOrigin | undefined,
): readonly ComponentSource[] {
  const all = releaseOf(component, version).sources(deps.architecture);
  const wanted = all.filter(({ by }) => from === undefined || by === from);
  if (wanted.length > 0) return wanted;
  throw new AppError(
    "request.invalid",
    `${component.name} ${version} cannot be had by '${from}'; ways that there are: ${all.map(({ by }) => by).join(", ")}, or import`,
  );
}

/** Operations of several processes may work in one folder: a UPID is unique among them. */
function workOf({ id }: { readonly id: string }): string {
  return id.replaceAll(/[^\w.-]/g, "_");
}
