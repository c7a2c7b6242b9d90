// The node's part of /api/v1's components: what there is, and starting to bring or check one.
import { given } from "@gpve/contracts/given.ts";
import type { ComponentRow } from "@gpve/contracts/agent/agent-messages.ts";
import type { Component } from "@gpve/domain/component/component.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../agent.ts";
import {
  IMPORT_COMPONENT,
  INSTALL_COMPONENT,
  type ImportArgs,
  type InstallArgs,
  VERIFY_COMPONENT,
  type VerifyArgs,
} from "./component-operations.ts";
import { catalogued, installedVersion, requireVersionText, wantedRelease } from "./find-component.ts";
import type { ComponentStore, InstalledComponent } from "@gpve/domain/component/ports.ts";
import { AppError } from "@gpve/contracts/errors.ts";

type ComponentRoute =
  | "GET /gpve/nodes/{node}/components"
  | "POST /gpve/nodes/{node}/components/{component}/install"
  | "POST /gpve/nodes/{node}/components/{component}/verify"
  | "POST /gpve/nodes/{node}/components/{component}/import";

export function componentRoutes(deps: {
  readonly catalogue: readonly Component[];
  readonly store: ComponentStore;
  readonly architecture: "amd64" | "arm64";
  readonly engine: Pick<OperationEngine, "submit">;
}): OwnHandlers<ComponentRoute> {
  const { catalogue, store, engine, architecture } = deps;
  const start = async (
    type: string,
    args: InstallArgs | ImportArgs | VerifyArgs,
    requestId: string,
    ctx: RequestContext,
  ): Promise<string> => {
    const { component, version } = args;
    const { upid } = await engine.submit({
      type,
      resources: [`component/${component}/${version}`],
      args,
      subject: `${component}-${version}`,
      ...askedBy(ctx),
      requestId,
    });
    return upid;
  };
  return {
    "GET /gpve/nodes/{node}/components": () => rowsOf(catalogue, store, architecture),
    "POST /gpve/nodes/{node}/components/{component}/install": (
      { component, version, from, requestId },
      ctx,
    ) => {
      const known = catalogued(catalogue, component);
      const wanted = wantedRelease(known, version);
      return start(INSTALL_COMPONENT, { component, ...wanted, ...given({ from }) }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/components/{component}/verify": ({ component, version, requestId }, ctx) => {
      catalogued(catalogue, component);
      const wanted = version ?? installedVersion(store, component);
      if (wanted === undefined || store.get(component, requireVersionText(wanted)) === undefined)
        throw new AppError(
          "object.not_found",
          `${component}${version === undefined ? "" : ` ${version}`} is not installed on this node`,
        );
      return start(VERIFY_COMPONENT, { component, version: wanted }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/components/{component}/import": (
      { component, version, path, requestId },
      ctx,
    ) => {
      catalogued(catalogue, component);
      return start(
        IMPORT_COMPONENT,
        { component, version: requireVersionText(version), path },
        requestId,
        ctx,
      );
    },
  };
}

function rowsOf(
  catalogue: readonly Component[],
  store: ComponentStore,
  architecture: "amd64" | "arm64",
): ComponentRow[] {
  const here = store.list();
  return catalogue.flatMap((component) => {
    const { name, about, releases } = component;
    const offered = releases.map(({ version, sources }) => {
      const ways = sources(architecture).map(({ by }) => by);
      return row({ name, about, version, ways }, here);
    });
    const imported = here
      .filter((installed) => installed.name === name)
      .filter(({ version }) => !releases.some((release) => release.version === version))
      .map(({ version }) => row({ name, about, version, ways: [] }, here));
    return [...offered, ...imported];
  });
}

function row(
  wanted: Pick<ComponentRow, "name" | "about" | "version" | "ways">,
  here: readonly InstalledComponent[],
): ComponentRow {
  const found = here.find(({ name, version }) => name === wanted.name && version === wanted.version);
  if (found === undefined) return wanted;
  const sizes = Object.values(found.programs).map(({ sizeBytes }) => sizeBytes);
  return {
    ...wanted,
    installed: found.origin,
    sizeBytes: sizes.reduce((sum, size) => sum + size, 0),
    time: Math.floor(found.installedAt / 1000),
  };
}
