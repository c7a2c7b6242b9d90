// The ways in which programs come to a node: from their publisher, from Debian, or built from Go modules.
import { copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type {
  ArchiveDownload,
  ComponentSource,
  DebianSource,
  PlainDownload,
} from "@gpve/domain/component/component.ts";
import { findChecksum } from "@gpve/domain/image/checksum-list.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { FindRefusal, Obtain, SourceWork } from "@gpve/domain/component/ports.ts";
import { forged, notHad } from "@gpve/domain/component/refusal.ts";
import type { HttpFetcher } from "../storage/fetch/http-fetcher.ts";
import { DebianPackages } from "../images/debian-packages.ts";
import { buildWithGo, checkWithGo } from "./go-build.ts";

export interface ObtainDeps {
  readonly exec: Exec;
  readonly env: Readonly<Record<string, string>>;
  readonly fetcher: Pick<HttpFetcher, "download">;
  readonly fetchText: (url: string, signal: AbortSignal) => Promise<string>;
  readonly hash: (path: string, algorithm: "sha256" | "sha512", signal: AbortSignal) => Promise<string>;
}

export function obtainComponent(deps: ObtainDeps): Obtain {
  return async (source: ComponentSource, folder: string, work: SourceWork) => {
    if (source.by === "go") return buildWithGo(source, folder, work, deps);
    if (source.by === "debian") return fromDebian(source, folder, deps.exec);
    return "files" in source ? plain(source, folder, work, deps) : unpacked(source, folder, work, deps);
  };
}

/** By what can be known without fetching programs: descriptions of modules, and lists of checksums. */
export function findRefusal(deps: ObtainDeps): FindRefusal {
  return async (source, signal) => {
    const folder = mkdtempSync(join(tmpdir(), "gpve-refusal-"));
    try {
      if (source.by === "go") await checkWithGo(source, folder, signal, deps);
      else if (source.by === "download")
        for (const list of checksumLists(source)) await checksumsAt(list, signal, deps);
      return undefined;
    } catch (err) {
      if (signal.aborted) throw err;
      return messageOf(err);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

function checksumLists(source: PlainDownload | ArchiveDownload): readonly string[] {
  return "files" in source ? source.files.map(({ checksums }) => checksums) : [source.archive.checksums];
}

/** A publisher that answers, and has no such release, refuses it. */
async function checksumsAt(url: string, signal: AbortSignal, deps: ObtainDeps): Promise<string> {
  try {
    return await deps.fetchText(url, signal);
  } catch (err) {
    const status = isAppError(err) ? err.data["status"] : undefined;
    if (status === 403 || status === 404 || status === 410) throw notHad(`${url}: ${messageOf(err)}`);
    throw err;
  }
}

async function plain(
  { files }: PlainDownload,
  folder: string,
  work: SourceWork,
  deps: ObtainDeps,
): Promise<void> {
  for (const [index, { program, url, checksums }] of files.entries()) {
    await checkedDownload(url, checksums, join(folder, program), deps, {
      ...work,
      progress: (fraction) => work.progress((index + fraction) / files.length, `fetching ${program}`),
    });
  }
}

async function unpacked(
  { archive, programs }: ArchiveDownload,
  folder: string,
  work: SourceWork,
  deps: ObtainDeps,
): Promise<void> {
  const [file, inside] = [join(folder, "archive"), join(folder, "inside")];
  await checkedDownload(archive.url, archive.checksums, file, deps, work);
  mkdirSync(inside);
  await deps.exec("tar", ["-xzf", file, "--no-same-owner", "-C", inside], { signal: work.signal });
  for (const [program, path] of Object.entries(programs))
    renameSync(join(inside, path), join(folder, program));
}

/** What its publisher's list does not vouch for is not kept. */
async function checkedDownload(
  url: string,
  checksums: string,
  path: string,
  deps: ObtainDeps,
  work: SourceWork,
): Promise<void> {
  work.say(`fetching ${url}`);
  const checksum = findChecksum(await checksumsAt(checksums, work.signal, deps), basename(url));
  if (checksum === undefined)
    throw new AppError(
      "request.invalid",
      `${checksums} has no checksum for ${basename(url)}: it is not used`,
    );
  await deps.fetcher.download(url, path, {
    verifyCertificates: true,
    signal: work.signal,
    progress: (fraction) => work.progress(fraction),
  });
  const got = await deps.hash(path, checksum.algorithm, work.signal);
  if (got !== checksum.value)
    throw forged(
      `checksum mismatch: ${url} has ${checksum.algorithm} ${got}, its publisher says ${checksum.value}; it is not used`,
    );
}

async function fromDebian({ packages, programs }: DebianSource, folder: string, exec: Exec): Promise<void> {
  const root = join(folder, "root");
  await new DebianPackages(exec).unpack(packages, join(folder, "packages"), root);
  // Copied: it may be a hard link or a link of the package.
  for (const [program, path] of Object.entries(programs))
    copyFileSync(join(root, path), join(folder, program));
}
