// Wires the programs that virtual clusters are made of: catalogue, store, and the ways in which they come.
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { componentCatalogue } from "@gpve/domain/component/catalogue.ts";
import type { Architecture, Component } from "@gpve/domain/component/component.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import {
  type ComponentOperationDeps,
  ensureComponent,
  importComponentOperation,
  installComponentOperation,
  verifyComponentOperation,
} from "./application/component/component-operations.ts";
import { obtainableVersion } from "./application/component/obtainable-version.ts";
import { componentRoutes } from "./application/component/component-routes.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import {
  ComponentFolder,
  copyPrograms,
  makeExecutable,
} from "./infrastructure/component/component-folder.ts";
import { goEnvironment } from "./infrastructure/component/go-build.ts";
import {
  findRefusal,
  obtainComponent,
  type ObtainDeps,
} from "./infrastructure/component/obtain-component.ts";
import { fetchText } from "./infrastructure/images/fetch-text.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { HttpFetcher } from "./infrastructure/storage/fetch/http-fetcher.ts";
import { HostStorageFiles } from "./infrastructure/storage/fetch/storage-files.ts";

export interface ComponentSettings {
  readonly proxy: () => string | undefined;
  readonly data: DataDir;
  readonly engine: OperationEngine;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly clock: Clock;
}

export interface ComposedComponents {
  readonly store: ComponentStore;
  readonly catalogue: readonly Component[];
  readonly routes: ReturnType<typeof componentRoutes>;
  /** That version, or the newest older patch of it that can be had. */
  readonly obtainable: (name: string, version: string, signal: AbortSignal) => Promise<string>;
  readonly ensure: (name: string, version: string, ctx: StepContext) => Promise<void>;
}

export function composeComponents(settings: ComponentSettings): ComposedComponents {
  const { data, engine, exec, clock } = settings;
  const store = new ComponentFolder(
    process.env["GPVE_COMPONENTS"] ?? data.file("agent", "components"),
    clock,
  );
  const fetcher = new HttpFetcher({ userAgent: `gpve/${PRODUCT_VERSION}`, proxy: settings.proxy });
  const files = new HostStorageFiles({ exec, tools: settings.imageTools });
  const architecture: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const ways: ObtainDeps = {
    exec,
    env: goEnvironment(process.env),
    fetcher,
    fetchText: (url, signal) => fetchText(fetcher, url, signal),
    hash: (path, algorithm, signal) => files.hash(path, algorithm, signal),
  };
  const deps: ComponentOperationDeps = {
    catalogue: componentCatalogue,
    store,
    architecture,
    obtain: obtainComponent(ways),
    findRefusal: findRefusal(ways),
    ask: async (program, args) => {
      await makeExecutable(program);
      return (await exec(program, args)).stdout;
    },
    copyPrograms,
  };
  engine.register(installComponentOperation(deps));
  engine.register(importComponentOperation(deps));
  engine.register(verifyComponentOperation(deps));
  return {
    store,
    catalogue: componentCatalogue,
    obtainable: (name, version, signal) => obtainableVersion(deps, name, version, signal),
    ensure: (component, version, ctx) => ensureComponent(deps, { component, version }, ctx),
    routes: componentRoutes({ catalogue: componentCatalogue, store, architecture, engine }),
  };
}
