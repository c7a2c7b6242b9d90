// Requests that bring files onto a storage: from a client, from the network, from a registry.
import { given } from "@gpve/contracts/given.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  ISO_NAME,
  normalizeFileName,
  TEMPLATE_NAME,
  UPLOAD_IMPORT_NAME,
} from "@gpve/domain/storage/content.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { badStorageParameter, storageExists, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { ChecksumAlgorithm } from "../ports.ts";
import { PULL_OCI, type PullOciArgs } from "../pull-oci.ts";
import { COPY_IMAGE, DOWNLOAD, type Checksum, type DownloadArgs, type UploadArgs } from "../receive-file.ts";
import { submit, type StorageRequestDeps } from "./storage-requests.ts";

export async function requestUpload(
  deps: StorageRequestDeps,
  asked: PveParams["POST /nodes/{node}/storage/{storage}/upload"],
  ctx: RequestContext,
): Promise<string> {
  const { tmpfilename } = asked;
  if (tmpfilename === undefined || !isIn(deps.uploads, tmpfilename))
    throw storageRefused("missing temporary file name");
  try {
    const volid = receivedVolume(deps, asked.storage, asked.content, asked.filename);
    const checksum = checksumOf(asked.checksum, asked["checksum-algorithm"]);
    const args: UploadArgs = { kind: "upload", volid, spooled: tmpfilename, ...given({ checksum }) };
    return await submit(deps, ctx, {
      type: COPY_IMAGE,
      resources: [`volume/${volid}`],
      args,
      subject: "",
    });
  } catch (err) {
    await deps.files.remove(tmpfilename);
    throw err;
  }
}

export async function requestDownload(
  deps: StorageRequestDeps,
  asked: PveParams["POST /nodes/{node}/storage/{storage}/download-url"],
  ctx: RequestContext,
): Promise<string> {
  const { storage, content, compression } = asked;
  const { definition } = deps.storages.find(storage);
  if (!contentOf(definition).has(content))
    throw storageRefused(`storage '${storage}' is not configured for content-type '${content}'`);
  if (/^https?:\/\/[^/]*@/.test(asked.url))
    throw badStorageParameter("url", "user name and password in a URL are not accepted");
  const volid = receivedVolume(deps, storage, content, asked.filename);
  const checksum = checksumOf(asked.checksum, asked["checksum-algorithm"]);
  const args: DownloadArgs = {
    volid,
    url: asked.url,
    verifyCertificates: asked["verify-certificates"] ?? true,
    ...given({ compression, checksum }),
  };
  return submit(deps, ctx, {
    type: DOWNLOAD,
    resources: [`volume/${volid}`],
    args,
    subject: normalizeFileName(asked.filename),
  });
}

export async function requestOciPull(
  deps: Pick<StorageRequestDeps, "storages" | "files" | "engine">,
  asked: PveParams["POST /nodes/{node}/storage/{storage}/oci-registry-pull"],
  ctx: RequestContext,
): Promise<string> {
  const { storage, reference } = asked;
  const { definition } = deps.storages.find(storage);
  if (!contentOf(definition).has("vztmpl"))
    throw storageRefused(`storage '${storage}' does not support 'vztmpl' content`);
  const filename = normalizeFileName(`${(asked.filename ?? nameOf(reference)).replace(/\.tar$/, "")}.tar`);
  const args: PullOciArgs = { volid: `${storage}:vztmpl/${filename}`, reference };
  const { plugin, volname } = deps.storages.volume(args.volid);
  if (await deps.files.exists(plugin.path(volname)))
    throw storageExists(`refusing to override existing file '${filename}'`);
  return submit(deps, ctx, {
    type: PULL_OCI,
    resources: [`volume/${args.volid}`],
    args,
    subject: filename,
  });
}

/** Directly in it, and neither itself nor above it. */
function isIn(folder: string, path: string): boolean {
  const name = path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : "";
  return name !== "" && !name.includes("/") && !/^\.{1,2}$/.test(name);
}

/** `docker.io/library/nginx:alpine` is kept as `nginx_alpine`. */
function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf("/") + 1).replace(":", "_");
}

/** The volume that an upload or download will become. */
function receivedVolume(
  deps: StorageRequestDeps,
  storage: string,
  content: "iso" | "vztmpl" | "import",
  given: string,
): string {
  const name = normalizeFileName(given);
  const fits = { iso: ISO_NAME, vztmpl: TEMPLATE_NAME, import: UPLOAD_IMPORT_NAME }[content].test(name);
  if (!fits || name.startsWith(".")) {
    const text = content === "import" ? "invalid filename or wrong extension" : "wrong file extension";
    throw badStorageParameter("filename", text);
  }
  const { definition } = deps.storages.find(storage);
  if (!contentOf(definition).has(content)) {
    throw storageRefused(`storage '${storage}' does not support '${content}' content`);
  }
  return `${storage}:${content}/${name}`;
}

function checksumOf(
  value: string | undefined,
  algorithm: ChecksumAlgorithm | undefined,
): Checksum | undefined {
  return value === undefined || algorithm === undefined ? undefined : { value, algorithm };
}
