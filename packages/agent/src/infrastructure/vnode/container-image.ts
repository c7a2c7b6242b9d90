// Images of containers that are made here, of programs that need nothing but themselves: archives as the OCI has them, for
// containerd to import.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export interface ImageRecipe {
  /** "gpve.local/busybox:1" */
  readonly name: string;
  readonly programs: readonly { readonly from: string; readonly to: string }[];
  /** Link -> what it leads to. */
  readonly links?: Readonly<Record<string, string>>;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
}

type Entry =
  | { readonly path: string; readonly kind: "folder" }
  | { readonly path: string; readonly kind: "file"; readonly content: Uint8Array; readonly mode?: number }
  | { readonly path: string; readonly kind: "link"; readonly to: string };

const MEDIA = "application/vnd.oci.image";

/** Writes it where it is not there yet. */
export function ensureImage(recipe: ImageRecipe, file: string): void {
  if (existsSync(file)) return;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileAtomic(file, imageArchive(recipe));
}

export function imageArchive({ name, programs, links = {}, entrypoint, command }: ImageRecipe): Buffer {
  const entries: Entry[] = [
    ...programs.map(
      ({ from, to }) => ({ path: to, kind: "file", content: readFileSync(from), mode: 0o755 }) as const,
    ),
    ...Object.entries(links).map(([path, to]) => ({ path, kind: "link", to }) as const),
  ];
  const paths = [...entries.map(({ path }) => path), "etc/x", "tmp/x"];
  const folders = new Set(paths.flatMap(foldersAbove));
  const layer = archive([
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
  return archive([
    { path: "oci-layout", kind: "file", content: json({ imageLayoutVersion: "1.0.0" }) },
    { path: "index.json", kind: "file", content: index },
    blob(manifest),
    blob(config),
    blob(layer),
  ]);
}

/** As tar has it, with nothing in it that changes from one time to the next. */
function archive(entries: readonly Entry[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const content = entry.kind === "file" ? entry.content : new Uint8Array();
    parts.push(header(entry, content.length), content, new Uint8Array(-content.length & 511));
  }
  return Buffer.concat([...parts, new Uint8Array(1024)]);
}

const TYPES = { file: "0", link: "2", folder: "5" } as const;

function header(entry: Entry, size: number): Buffer {
  const block = Buffer.alloc(512);
  const octal = (value: number, at: number, length: number): void =>
    void block.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at);
  const mode = entry.kind === "file" ? (entry.mode ?? 0o644) : entry.path === "tmp" ? 0o1777 : 0o755;
  block.write(entry.kind === "folder" ? `${entry.path}/` : entry.path, 0, 100);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.write(TYPES[entry.kind], 156);
  if (entry.kind === "link") block.write(entry.to, 157, 100);
  block.write("ustar\0" + "00", 257);
  // The sum is of the block with blanks where the sum is.
  block.fill(" ", 148, 156);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
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
