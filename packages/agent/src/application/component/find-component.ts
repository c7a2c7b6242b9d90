// From a name and a version to a component, or to a refusal that says what there is.
import { AppError } from "@gpve/contracts/errors.ts";
import {
  compareVersions,
  type Component,
  type ComponentRelease,
  isComponentVersion,
} from "@gpve/domain/component/component.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";

export function catalogued(catalogue: readonly Component[], name: string): Component {
  const found = catalogue.find((component) => component.name === name);
  if (found !== undefined) return found;
  const known = catalogue.map((component) => component.name).join(", ");
  throw new AppError("object.not_found", `there is no component '${name}'; there are ${known}`);
}

export function releaseOf({ name, releases }: Component, version: string): ComponentRelease {
  const found = releases.find((release) => release.version === version);
  if (found !== undefined) return found;
  const known = releases.map((release) => release.version).join(", ");
  throw new AppError(
    "object.not_found",
    `${name} ${version} is not in the catalogue, which has ${known}; any other version works when its programs are imported: gpvectl component import ${name} ${version} --from FOLDER`,
  );
}

/** The very release that is named, else the newest of a minor, or of all: then an older patch does too. */
export function wantedRelease(
  component: Component,
  asked: string | undefined,
): { readonly version: string; readonly orOlder?: true } {
  const { releases } = component;
  if (asked === undefined) return { version: requireVersionText(releases[0]?.version ?? ""), orOlder: true };
  const version = requireVersionText(asked);
  const newest = releases.find((release) => release.version.startsWith(`${version}.`))?.version;
  if (newest !== undefined && !releases.some((release) => release.version === version))
    return { version: newest, orOlder: true };
  return { version: releaseOf(component, version).version };
}

export function requireVersionText(version: string): string {
  if (isComponentVersion(version)) return version;
  throw new AppError("request.invalid", `'${version}' is no version of a component`, {
    errors: { version: "is no version" },
  });
}

/** The newest that is installed and begins with this ("1.36", "1.36.4", ""); undefined = none. */
export function installedVersion(
  store: Pick<ComponentStore, "list">,
  name: string,
  wanted = "",
): string | undefined {
  return store
    .list()
    .filter((installed) => installed.name === name)
    .map(({ version }) => version)
    .filter((version) => wanted === "" || version === wanted || version.startsWith(`${wanted}.`))
    .toSorted(compareVersions)
    .at(-1);
}
