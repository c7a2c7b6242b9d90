// Images of container registries, kept as templates.
import { storageExists } from "@gpve/domain/storage/failures.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { NodeStorages } from "./node-storages.ts";
import type { OciRegistry, StorageFiles } from "./ports.ts";

export const PULL_OCI = "ociregistrypull";

export interface PullOciArgs {
  readonly volid: string;
  readonly reference: string;
}

interface PullOciState {
  temporary?: string;
  /** Nothing was there before: what is there from now on is ours. */
  installing?: string;
}

export interface PullOciDeps {
  readonly storages: NodeStorages;
  readonly files: StorageFiles;
  readonly registry: OciRegistry;
}

export function pullOciOperation({
  storages,
  files,
  registry,
}: PullOciDeps): OperationDefinition<PullOciArgs, PullOciState> {
  return {
    type: PULL_OCI,
    onCrash: "undo",
    steps: [
      {
        name: "pull",
        run: async (ctx) => {
          const { reference, volid } = ctx.args;
          const { plugin, volname } = storages.volume(volid);
          await plugin.activate();
          const target = plugin.path(volname);
          if (ctx.state.installing !== undefined && (await files.exists(target))) return;
          if (await files.exists(target))
            throw storageExists(`refusing to override existing file '${target}'`);
          const temporary = temporaryFor(target, ctx.id);
          ctx.state.temporary = temporary;
          await ctx.checkpoint();
          await files.makeDirectory(target.slice(0, target.lastIndexOf("/")));
          ctx.log(`pulling ${reference} to ${target}`);
          await registry.pull(reference, temporary, { signal: ctx.signal, say: (line) => ctx.log(line) });
          ctx.state.installing = target;
          await ctx.checkpoint();
          await files.install(temporary, target, ctx.signal);
          await registry.discard(temporary);
          ctx.log(`pull of '${reference}' to '${target}' finished`);
        },
        undo: async (ctx) => {
          const { temporary, installing } = ctx.state;
          if (temporary !== undefined) await registry.discard(temporary);
          if (installing !== undefined) await files.remove(installing);
        },
      },
    ],
  };
}

/** Beside its target, hidden from lists, and without the colon that would end a path for the puller. */
function temporaryFor(target: string, id: string): string {
  const directory = target.slice(0, target.lastIndexOf("/"));
  return `${directory}/.oci-${id.replaceAll(/[^a-zA-Z0-9]/g, "_")}`;
}
