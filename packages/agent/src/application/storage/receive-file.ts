// Files that come into a storage: uploads, downloads, copies of volumes.
import { refused } from "@gpve/domain/request/failures.ts";
import type { ImageFormat, VolumeType } from "@gpve/domain/storage/content.ts";
import { storageExists, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { OperationDefinition, Step, StepContext } from "@gpve/kit/operation/definition.ts";
import type { NodeStorages } from "./node-storages.ts";
import type { ChecksumAlgorithm, StorageFiles, UrlFetcher } from "./ports.ts";

export const COPY_IMAGE = "imgcopy";
export const DOWNLOAD = "download";

export interface Checksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly value: string;
}

export interface UploadArgs {
  readonly kind: "upload";
  readonly volid: string;
  /** The received body, in this node's own upload directory. */
  readonly spooled: string;
  readonly checksum?: Checksum;
}

export interface CopyArgs {
  readonly kind: "copy";
  readonly source: string;
  readonly target: string;
}

export interface DownloadArgs {
  readonly volid: string;
  readonly url: string;
  readonly verifyCertificates: boolean;
  readonly compression?: string;
  readonly checksum?: Checksum;
}

interface ReceiveDeps {
  readonly storages: NodeStorages;
  readonly files: StorageFiles;
}

interface CopyState {
  made?: string;
}

export function copyImageOperation(deps: ReceiveDeps): OperationDefinition<UploadArgs | CopyArgs, CopyState> {
  return {
    type: COPY_IMAGE,
    onCrash: "resume",
    plan: (args) => (args.kind === "upload" ? [uploadStep(deps)] : [copyStep(deps)]),
  };
}

function uploadStep({ storages, files }: ReceiveDeps): Step<UploadArgs | CopyArgs, CopyState> {
  return {
    name: "upload",
    run: async (ctx) => {
      const args = ctx.args as UploadArgs;
      const { plugin, volname, name } = storages.volume(args.volid);
      const target = plugin.path(volname);
      // After a crash between putting it in place and writing that down, the body is already gone.
      if (!(await files.exists(args.spooled)) && (await files.exists(target))) return;
      ctx.log(`starting file import from: ${args.spooled}`);
      if (args.checksum !== undefined) await verify(files, args.spooled, args.checksum, ctx);
      await files.inspect(args.spooled, name.name, ctx.signal);
      ctx.log(`target node: ${storages.node}`);
      ctx.log(`target file: ${target}`);
      ctx.log(`file size is: ${await files.size(args.spooled)}`);
      await plugin.activate();
      await files.install(args.spooled, target, ctx.signal);
      ctx.log("finished file import successfully");
    },
    undo: async (ctx) => {
      await files.remove((ctx.args as UploadArgs).spooled);
    },
  };
}

function copyStep({ storages, files }: ReceiveDeps): Step<UploadArgs | CopyArgs, CopyState> {
  return {
    name: "copy",
    run: async (ctx) => {
      const args = ctx.args as CopyArgs;
      const source = storages.volume(args.source);
      const target = storages.volume(args.target);
      await target.plugin.activate();
      const path = target.plugin.path(target.volname);
      if (ctx.state.made !== undefined) await target.plugin.free(target.volname);
      if (await files.exists(path)) throw storageExists(`volume '${args.target}' already exists`);
      ctx.state.made = args.target;
      await ctx.checkpoint();
      ctx.log(`copying '${args.source}' to '${args.target}'`);
      const work = { signal: ctx.signal, progress: (fraction: number) => ctx.progress(fraction) };
      if (target.name.type === "images" && target.name.vmid !== undefined) {
        await target.plugin.importFrom(
          await source.plugin.attach(source.volname),
          { vmid: target.name.vmid, format: target.name.format as ImageFormat, name: target.name.name },
          work,
        );
      } else {
        await files.copy(await source.plugin.file(source.volname), path, work);
      }
      ctx.log(`finished copying to '${args.target}'`);
    },
    undo: async (ctx) => {
      if (ctx.state.made === undefined) return;
      const { plugin, volname } = storages.volume(ctx.state.made);
      await plugin.free(volname);
    },
  };
}

interface DownloadState {
  temporary?: string;
  /** Nothing was there before: what is there from now on is ours. */
  installing?: string;
}

export function downloadOperation(
  deps: ReceiveDeps & { readonly fetcher: UrlFetcher },
): OperationDefinition<DownloadArgs, DownloadState> {
  const { storages, files, fetcher } = deps;
  return {
    type: DOWNLOAD,
    onCrash: "undo",
    steps: [
      {
        name: "download",
        run: async (ctx) => {
          const { args } = ctx;
          const { plugin, volname, name } = storages.volume(args.volid);
          await plugin.activate();
          requireDecompressible(name.type, args.compression);
          const target = plugin.path(volname);
          ctx.log(`downloading ${withoutPassword(args.url)} to ${target}`);
          if (ctx.state.installing !== undefined && (await files.exists(target))) return;
          if (await alreadyThere(files, target, args.checksum, ctx)) return;
          const temporary = temporaryFor(target, ctx.id);
          ctx.state.temporary = temporary;
          await ctx.checkpoint();
          const bytes = await fetcher.download(args.url, temporary, {
            verifyCertificates: args.verifyCertificates,
            signal: ctx.signal,
            progress: (fraction) => ctx.progress(fraction),
          });
          ctx.log(`received ${bytes} bytes`);
          if (args.checksum !== undefined) await verify(files, temporary, args.checksum, ctx);
          if (args.compression !== undefined) {
            ctx.log(`decompressing (${args.compression})`);
            await files.decompress(temporary, args.compression, ctx.signal);
          }
          await files.inspect(temporary, name.name, ctx.signal);
          if (await files.exists(target))
            throw storageExists(`refusing to override existing file '${target}'`);
          ctx.state.installing = target;
          await ctx.checkpoint();
          await files.install(temporary, target, ctx.signal);
          ctx.log(`download of '${withoutPassword(args.url)}' to '${target}' finished`);
        },
        undo: async (ctx) => {
          const { temporary, installing } = ctx.state;
          if (temporary !== undefined) await files.remove(temporary);
          if (installing !== undefined) await files.remove(installing);
        },
      },
    ],
  };
}

const DECOMPRESSORS = ["gz", "lzo", "zst", "bz2"];

function requireDecompressible(type: VolumeType, compression: string | undefined): void {
  if (compression === undefined) return;
  if (type !== "iso") throw storageRefused(`decompression not supported for ${type}`);
  if (!DECOMPRESSORS.includes(compression)) throw storageRefused("no decompression method found");
}

async function alreadyThere(
  files: StorageFiles,
  target: string,
  checksum: Checksum | undefined,
  ctx: StepContext<DownloadArgs, DownloadState>,
): Promise<boolean> {
  if (!(await files.exists(target))) return false;
  if (checksum === undefined) throw storageExists(`refusing to override existing file '${target}'`);
  ctx.log("calculating checksum of existing file...");
  const got = await files.hash(target, checksum.algorithm, ctx.signal);
  if (got !== checksum.value.toLowerCase()) {
    throw storageRefused(`checksum mismatch: got '${got}' != expect '${checksum.value}', aborting`);
  }
  ctx.log("OK, got correct file already, no need to download");
  return true;
}

async function verify(
  files: StorageFiles,
  path: string,
  checksum: Checksum,
  ctx: { readonly signal: AbortSignal; log(line: string): void },
): Promise<void> {
  ctx.log("calculating checksum...");
  const got = await files.hash(path, checksum.algorithm, ctx.signal);
  if (got !== checksum.value.toLowerCase()) {
    throw refused(`checksum mismatch: got '${got}' != expect '${checksum.value}'`);
  }
  ctx.log("OK, checksum verified");
}

/** Beside its target, hidden from lists, and not the name of another operation's file. */
function temporaryFor(target: string, id: string): string {
  const directory = target.slice(0, target.lastIndexOf("/"));
  return `${directory}/.download-${id.replaceAll(/[^a-zA-Z0-9]/g, "_")}`;
}

/** A password in a URL stays out of the log. */
function withoutPassword(url: string): string {
  return url.replace(/^(https?:\/\/)[^/@]*@/, "$1");
}
