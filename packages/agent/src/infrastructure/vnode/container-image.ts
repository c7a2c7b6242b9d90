// Images of containers that are made here, of programs that need nothing but themselves: archives as the OCI has them, for
// containerd to import.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { tarArchive, type TarEntry } from "./tar-archive.ts";

export interface ContainerRecipe {
  /** "gpve.local/busybox:1" */
  readonly name: string;
  readonly programs: readonly { readonly from: string; readonly to: string }[];
  /** Link -> what it leads to. */
  readonly links?: Readonly<Record<string, string>>;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
}

const MEDIA = "application/vnd.oci.image";

/** Writes it where it is not there yet. */
export async function ensureImage(recipe: ContainerRecipe, file: string): Promise<void> {
  if (existsSync(file)) return;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileAtomic(file, await imageArchive(recipe));
}

async function imageArchive({
  name,
  programs,
  links = {},
  entrypoint,
  command,
}: ContainerRecipe): Promise<Buffer> {
  const entries: TarEntry[] = [
    ...programs.map(
      ({ from, to }) => ({ path: to, kind: "file", content: readFileSync(from), mode: 0o755 }) as const,
    ),
    ...Object.entries(links).map(([path, to]) => ({ path, kind: "link", to }) as const),
  ];
  const paths = [...entries.map(({ path }) => path), "etc/x", "tmp/x"];
  const folders = new Set(paths.flatMap(foldersAbove));
  const layer = await tarArchive([
    ...[...folders].toSorted().map((path) => ({ path, kind: "folder" }) as const),
    { path: "etc/passwd", kind: "file", content: Buffer.from("root:x:0:0:root:/:/bin/sh\n") },
    ...entries,
  ]);
  const config = json({
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: {
      Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
      ...given({ Entrypoint: entrypoint, Cmd: command }),
    },
    rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
  });
  const manifest = json({
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: { mediaType: `${MEDIA}.config.v1+json`, digest: digestOf(config), size: config.length },
    layers: [{ mediaType: `${MEDIA}.layer.v1.tar`, digest: digestOf(layer), size: layer.length }],
  });
  const index = json({
    schemaVersion: 2,
    manifests: [
      {
        mediaType: `${MEDIA}.manifest.v1+json`,
        digest: digestOf(manifest),
        size: manifest.length,
        annotations: { "io.containerd.image.name": name },
      },
    ],
  });
  const blob = (content: Buffer) =>
    ({ path: `blobs/sha256/${digestOf(content).slice("sha256:".length)}`, kind: "file", content }) as const;
  return tarArchive([
    { path: "oci-layout", kind: "file", content: json({ imageLayoutVersion: "1.0.0" }) },
    { path: "index.json", kind: "file", content: index },
    blob(manifest),
    blob(config),
    blob(layer),
  ]);
}

function foldersAbove(path: string): string[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_name, at) => names.slice(0, at + 1).join("/"));
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function digestOf(content: Uint8Array): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}
