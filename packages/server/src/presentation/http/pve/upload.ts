// The body of an upload: small fields become parameters, the file goes to the node's own upload directory as it
// arrives. Nothing of it is held in memory.
import type { IncomingMessage } from "node:http";
import type { UploadPlace } from "@gpve/domain/node/upload.ts";
import { boundaryOf, MultipartError, MultipartReader, type PartHead } from "./multipart.ts";
import type { Uploads, UploadTo } from "./ports.ts";

export interface ReceivedUpload {
  readonly params: Record<string, unknown>;
  /** To be called when nobody takes the file. */
  discard(): Promise<void>;
}

/** Something about the form itself is wrong. PVE says no more than this. */
export class UploadFailed extends Error {
  constructor(options?: ErrorOptions) {
    super("upload failed", options);
  }
}

const FIELDS = new Set(["content", "checksum", "checksum-algorithm"]);
const FILE = "filename";
/** A client that sends nothing for so long has gone. */
const IDLE_MS = 120_000;
const MAX_FIELD_BYTES = 4_096;

/** POST /nodes/{node}/storage/{storage}/upload with a form. */
export function uploadTarget(
  method: string,
  segments: readonly string[],
): { readonly node: string; readonly storage: string } | undefined {
  const [nodes, node, storages, storage, verb, ...more] = segments;
  if (method !== "POST" || nodes !== "nodes" || storages !== "storage" || verb !== "upload") return undefined;
  return more.length > 0 || node === undefined || storage === undefined ? undefined : { node, storage };
}

export async function receiveUpload(
  req: IncomingMessage,
  uploads: Uploads,
  to: UploadTo,
  length: number,
): Promise<ReceivedUpload> {
  const boundary = boundaryOf(req.headers["content-type"] ?? "");
  if (boundary === undefined) throw new UploadFailed();
  const place = await uploads.open(to, length);
  const { socket } = req;
  const gone = (): void => void socket.destroy();
  socket.setTimeout(IDLE_MS, gone);
  try {
    const params = await readForm(req, new MultipartReader(boundary), place);
    await place.finish();
    return { params: { ...params, tmpfilename: place.path }, discard: () => place.discard() };
  } catch (err) {
    await place.discard();
    throw err instanceof MultipartError ? new UploadFailed({ cause: err }) : err;
  } finally {
    socket.setTimeout(0);
    socket.off("timeout", gone);
  }
}

async function readForm(
  req: IncomingMessage,
  reader: MultipartReader,
  place: UploadPlace,
): Promise<Record<string, string>> {
  const params: Record<string, string> = {};
  let part: PartHead | undefined;
  let field = "";
  // go-proxmox says under which name to store the file in a field beside it, anywhere in the form.
  let storedName: string | undefined;
  // A refused form must not take the connection with it: the answer goes out on it.
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    for (const event of reader.push(chunk as Buffer)) {
      if (event.kind === "part") {
        part = event.head;
        field = "";
        const { name = "" } = part;
        const isFile = name === FILE && part.fileName !== undefined;
        const known = name === FILE && !isFile ? storedName : params[name];
        if ((name !== FILE && !FIELDS.has(name)) || known !== undefined) throw new UploadFailed();
        if (isFile) params[FILE] = part.fileName ?? "";
      } else if (event.kind === "data") {
        if (part?.name === FILE && part.fileName !== undefined) await place.write(event.bytes);
        else field += event.bytes.toString("utf8");
        if (field.length > MAX_FIELD_BYTES) throw new UploadFailed();
      } else if (event.kind === "part-end") {
        if (part?.name === FILE && part.fileName === undefined) storedName = field.trim();
        else if (part?.name !== undefined && part.name !== FILE) params[part.name] = field.trim();
        part = undefined;
      }
    }
  }
  reader.finish();
  if (storedName === undefined) return params;
  if (params[FILE] === undefined) throw new UploadFailed();
  return { ...params, [FILE]: storedName };
}
