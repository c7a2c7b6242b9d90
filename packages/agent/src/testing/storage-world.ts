// A node with storages in a scratch directory, its operations in memory, and its storage methods.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { newStorageDefinition, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import { testEngine, type TestEngine } from "@gpve/kit/testing/operation-engine.ts";
import { backupTime } from "../application/storage/local-time.ts";
import { NodeStorages } from "../application/storage/node-storages.ts";
import type { SagaRegistry } from "@gpve/kit/testing/saga-harness.ts";
import { copyImageOperation, downloadOperation } from "../application/storage/receive-file.ts";
import { pruneBackupsOperation, removeVolumeOperation } from "../application/storage/remove-volume.ts";
import { storagePlugin } from "../infrastructure/storage/storage-plugins.ts";
import { HttpFetcher } from "../infrastructure/storage/fetch/http-fetcher.ts";
import { HostStorageFiles } from "../infrastructure/storage/fetch/storage-files.ts";
import { createStorageHandlers } from "../presentation/pve/storage/storage-handlers.ts";
import { plainPlugins } from "./plain-plugins.ts";

export const ALL_CONTENT = "images,rootdir,vztmpl,iso,backup,snippets,import";
export type Rights = Readonly<Record<string, readonly string[]>>;

export class StorageWorld {
  readonly root = mkdtempSync(join(tmpdir(), "gpve-storages-"));
  readonly uploads = join(this.root, "upload");
  readonly files = new HostStorageFiles(plainPlugins());
  readonly fetcher = new HttpFetcher({ userAgent: "test" });
  readonly problems: string[] = [];
  definitions: StorageDefinition[];
  readonly storages: NodeStorages;

  constructor() {
    mkdirSync(this.uploads);
    this.definitions = [
      newStorageDefinition("local", "dir", { path: join(this.root, "local"), content: ALL_CONTENT }),
    ];
    this.storages = new NodeStorages({
      guard: async () => undefined,
      node: "n1",
      definitions: () => this.definitions,
      pluginFor: (definition) => storagePlugin(definition, { ...plainPlugins(), backupTime }),
      clock: systemClock,
      onProblem: (storage, problem) => void this.problems.push(`${storage}: ${problem}`),
    });
  }

  define(storage: string, options: Readonly<Record<string, string | boolean | number>> = {}): void {
    const path = join(this.root, storage);
    this.definitions = [...this.definitions, newStorageDefinition(storage, "dir", { path, ...options })];
  }

  /** A file below the first storage. */
  put(name: string, content: string | Buffer = "x"): string {
    const path = join(this.root, "local", name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  register(engine: SagaRegistry): void {
    const deps = { storages: this.storages, files: this.files, fetcher: this.fetcher };
    engine.register(removeVolumeOperation(this.storages));
    engine.register(pruneBackupsOperation(this.storages));
    engine.register(copyImageOperation(deps));
    engine.register(downloadOperation(deps));
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** The world with its methods, called as the agent calls them. */
export class StorageNode extends StorageWorld {
  readonly operations: TestEngine = testEngine();
  readonly handlers: PveHandlers;

  constructor() {
    super();
    this.register(this.operations.engine);
    this.handlers = createStorageHandlers({
      storages: this.storages,
      files: this.files,
      fetcher: this.fetcher,
      engine: this.operations.engine,
      clock: systemClock,
      statistics: { rows: (storage) => [{ time: storage.length }] },
      uploads: this.uploads,
      volumeContent: (vmid) => (vmid === 200 ? "rootdir" : "images"),
    });
  }

  async call(route: PveRouteKey, params: object, rights?: Rights): Promise<unknown> {
    const handler = this.handlers[route] as ((params: unknown, ctx: RequestContext) => unknown) | undefined;
    if (handler === undefined) throw new Error(`no handler of ${route}`);
    return handler({ node: "n1", ...params }, contextOf(rights));
  }

  /** Calls a method that answers with a task and waits for its end. */
  async task(route: PveRouteKey, params: object, rights?: Rights): Promise<OperationView> {
    const upid = await this.call(route, params, rights);
    return this.operations.engine.wait(String(upid));
  }
}

export function contextOf(rights: Rights | undefined): RequestContext {
  const has = (path: string, wanted: readonly string[], mode: "all" | "any" = "all"): boolean =>
    rights === undefined ||
    wanted[mode === "any" ? "some" : "every"]((each) => rights[path]?.includes(each) === true);
  const quiet = (): void => undefined;
  return {
    requestId: "r",
    actor: { userid: "joe@pve", authid: "joe@pve" },
    access: {
      privileges: () => new Map(),
      has,
      require: (path, wanted, mode) => {
        if (has(path, wanted, mode)) return;
        throw new AppError("access.denied", `Permission check failed (${path}, ${wanted.join("|")})`);
      },
    },
    signal: new AbortController().signal,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    clientAddress: "::1",
    traceparent: "00-00000000000000000000000000000001-0000000000000001-01",
  };
}
