// Archives of clusters, read in this process: whoever can write to the storage may have made one. Members are written one
// by one below a folder of ours, through no link, and devices are none of them.
import { constants } from "node:fs";
import { link, lstat, mkdir, open, symlink } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { extract, type Header } from "tar-stream";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { openPlainFile, withHeldFile } from "@gpve/kit/held-file.ts";

interface Member {
  readonly header: Header;
  readonly body: AsyncIterable<Uint8Array>;
}

const NEW = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
const PERMISSIONS = 0o7777;
const FACTS_BYTES = 2 ** 20;

/** What is below the `wanted` names; the rest of the archive is left out. */
export async function unpackArchive(
  path: string,
  folder: string,
  wanted: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  try {
    await eachMember(path, signal, async (member) => {
      const parts = partsOf(member.header.name);
      if (parts[0] === undefined || !wanted.includes(parts[0])) return true;
      await put(folder, parts, member);
      return true;
    });
  } catch (cause) {
    signal.throwIfAborted();
    throw new AppError("request.invalid", `the archive ${path} cannot be unpacked: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** The text of the first member, which has to have this name. */
export async function firstMember(path: string, name: string): Promise<string> {
  let text: string | undefined;
  try {
    await eachMember(path, undefined, async ({ header, body }) => {
      if (header.name === name && header.type === "file" && header.size <= FACTS_BYTES)
        text = await textOf(body);
      return false;
    });
  } catch (cause) {
    throw noBackup(path, name, messageOf(cause), cause);
  }
  if (text === undefined) throw noBackup(path, name, "it begins with something else");
  return text;
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

function noBackup(path: string, name: string, why: string, cause?: unknown): AppError {
  const message = `${path} is no backup of a virtual cluster: it does not begin with '${name}' (${why})`;
  return new AppError("request.invalid", message, { cause });
}

/** Until there is no more, or `use` says so. */
async function eachMember(
  path: string,
  signal: AbortSignal | undefined,
  use: (member: Member) => Promise<boolean>,
): Promise<void> {
  const file = await openPlainFile(path);
  const members = extract();
  const enough = new AbortController();
  const stop = signal === undefined ? enough.signal : AbortSignal.any([signal, enough.signal]);
  const read = pipeline(file.createReadStream(), createGunzip(), members, { signal: stop });
  read.catch((err: unknown) => ignore(err, "whoever reads the members is told"));
  for await (const entry of members) {
    const isMore = await use({ header: entry.header, body: entry as AsyncIterable<Uint8Array> });
    if (!isMore) {
      enough.abort();
      return;
    }
    entry.resume();
  }
  await read;
}

function partsOf(name: string): readonly string[] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (name.startsWith("/") || parts.includes("..") || name.includes("\0"))
    throw new Error(`its member '${name}' leads out of it`);
  return parts;
}

async function put(folder: string, parts: readonly string[], { header, body }: Member): Promise<void> {
  const { type, uid, gid, mode, linkname } = header;
  const target = join(folder, ...parts);
  await parentsOf(folder, parts);
  // What pods talk through is made again by them, and devices are not for them: both are left out.
  if (type === "directory") {
    await ensureFolder(target);
    await withHeldFile(target, async (held) => {
      await held.chown(uid, gid);
      await held.chmod(mode & PERMISSIONS);
    });
  } else if (type === "file") {
    await putFile(target, { header, body });
  } else if (type === "symlink") {
    await symlink(linkname ?? "", target);
  } else if (type === "link") {
    const other = partsOf(linkname ?? "");
    await parentsOf(folder, other);
    await link(join(folder, ...other), target);
  }
}

/** A link that came before, as a parent, would lead out. */
async function parentsOf(folder: string, parts: readonly string[]): Promise<void> {
  for (let depth = 1; depth < parts.length; depth++)
    await ensureFolder(join(folder, ...parts.slice(0, depth)));
}

async function ensureFolder(path: string): Promise<void> {
  const found = await lstat(path).catch((err: unknown) => {
    ignore(err, "to be made");
    return undefined;
  });
  if (found === undefined) await mkdir(path, { mode: 0o700 });
  else if (!found.isDirectory()) throw new Error(`its member below '${path}' leads through something else`);
}

async function putFile(target: string, { header, body }: Member): Promise<void> {
  const { uid, gid, mode, mtime } = header;
  const file = await open(target, NEW, 0o600);
  try {
    let position = 0;
    for await (const bytes of body) {
      // Holes stay holes.
      if (bytes.some((byte) => byte !== 0)) await file.write(bytes, 0, bytes.length, position);
      position += bytes.length;
    }
    await file.truncate(position);
    // A change of the owner takes bits of the mode away.
    await file.chown(uid, gid);
    await file.chmod(mode & PERMISSIONS);
    await file.utimes(mtime, mtime);
  } finally {
    await file.close();
  }
}
