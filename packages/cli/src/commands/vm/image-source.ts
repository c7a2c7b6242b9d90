// Where a new VM's disk comes from: an image by name, a file of this machine, an address, or a volume. Whatever it is,
// it ends as a volume of the import storage, from which the disk is then made.
import { open, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { isUpid } from "@gpve/client/task-wait.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";
import { nearest } from "../../nearest.ts";
import { fileFacts, sendFile } from "../storage/send-file.ts";

export interface ImageSource {
  readonly volume: string;
  /** Known to read a cloud-init drive. */
  readonly hasCloudInit: boolean;
  /** Known to let people in without any configuration. */
  readonly isOpen: boolean;
}

export interface ImagePlace {
  readonly node: string;
  /** Where images are kept. */
  readonly storage: string;
}

interface Row {
  readonly name: string;
  readonly pull: boolean;
  readonly build: boolean;
  readonly volume: string | undefined;
}

const IMPORTED = /\.(?:qcow2|raw|vmdk|ova)$/i;
const QCOW2_MAGIC = "QFI\u00fb";

export async function imageSource(cli: Cli, image: string, place: ImagePlace): Promise<ImageSource> {
  if (/^https?:\/\//i.test(image)) return unknownImage(await fetched(cli, image, place));
  if (/^[\w.-]+:import\//.test(image)) return unknownImage(image);
  const looksLikeFile = image.includes("/") || IMPORTED.test(image) || /\.img$/i.test(image);
  if (looksLikeFile) return unknownImage(await uploaded(cli, image, place));
  const rows = await catalogue(await cli.client(), place);
  const row = rows.find((one) => one.name === image);
  if (row !== undefined) {
    return { volume: await present(cli, row, place), hasCloudInit: true, isOpen: row.name === "tiny" };
  }
  const isFile = await stat(resolve(cli.io.cwd, image)).then(
    (facts) => facts.isFile(),
    () => false,
  );
  if (isFile) return unknownImage(await uploaded(cli, image, place));
  const names = rows.map(({ name }) => name);
  const meant = nearest(image, names);
  throw new AppError(
    "object.not_found",
    `there is no image ${image}, and no such file (images: ${names.join(", ")})`,
    { data: { next: `${meant === undefined ? "" : `Did you mean ${meant}? `}See: gpvectl image list.` } },
  );
}

const unknownImage = (volume: string): ImageSource => ({ volume, hasCloudInit: false, isOpen: false });

async function catalogue(client: GpveClient, { node, storage }: ImagePlace): Promise<readonly Row[]> {
  const answer = await client.v1.raw(
    "GET",
    `nodes/${encodeURIComponent(node)}/images?storage=${encodeURIComponent(storage)}`,
  );
  const rows = isObject(answer) && Array.isArray(answer["images"]) ? (answer["images"] as unknown[]) : [];
  return rows.filter(isObject).map(({ name, pull, build, volume }) => ({
    name: String(name),
    pull: pull === true,
    build: build === true,
    volume: typeof volume === "string" ? volume : undefined,
  }));
}

/** What was pulled or built before is used; else it is built here, which needs no more than Debian's packages. */
async function present(cli: Cli, row: Row, place: ImagePlace): Promise<string> {
  if (row.volume !== undefined) return row.volume;
  const pull = `gpvectl image pull ${row.name}${place.storage === "local" ? "" : ` --storage ${place.storage}`}`;
  if (!row.build) {
    throw new AppError(
      "object.not_found",
      `image ${row.name} is not on node ${place.node}, and it cannot be built, only pulled`,
      { data: { next: `Pull it first: ${pull} --node ${place.node}.` } },
    );
  }
  const fetch = row.pull ? ` (its publisher's own: ${pull})` : "";
  cli.out.note(
    `Image ${row.name} is not on node ${place.node} yet: building it from Debian packages${fetch}`,
  );
  const client = await cli.client();
  const path = `nodes/${encodeURIComponent(place.node)}/images/${encodeURIComponent(row.name)}/build`;
  const answer = await client.v1.post(`${path}?storage=${encodeURIComponent(place.storage)}`, undefined);
  await finished(cli, isObject(answer) ? answer["task"] : undefined);
  return `${place.storage}:import/${row.name}.qcow2`;
}

async function fetched(cli: Cli, url: string, place: ImagePlace): Promise<string> {
  const client = await cli.client();
  const facts = await client.pve.get("/nodes/{node}/query-url-metadata", { node: place.node, url });
  const filename = isObject(facts) ? facts["filename"] : undefined;
  if (typeof filename !== "string" || !IMPORTED.test(filename)) {
    const what = typeof filename === "string" ? filename : url;
    throw new AppError("request.invalid", `cannot tell what kind of image ${what} is`, {
      data: {
        next: `Download it under a name that says so (.qcow2, .raw, .vmdk, .ova): gpvectl storage download ${place.storage} URL --content import --name NAME.qcow2, then --image ${place.storage}:import/NAME.qcow2.`,
      },
    });
  }
  const volume = `${place.storage}:import/${filename}`;
  if (await exists(client, volume, place)) {
    cli.out.note(`Using ${volume}, which is there already.`);
    return volume;
  }
  cli.out.note(`Downloading ${filename} to node ${place.node}`);
  const answer = await client.pve.post("/nodes/{node}/storage/{storage}/download-url", {
    ...place,
    url,
    filename,
    content: "import",
  });
  await finished(cli, answer);
  return volume;
}

async function uploaded(cli: Cli, file: string, place: ImagePlace): Promise<string> {
  const path = resolve(cli.io.cwd, file);
  const { size } = await fileFacts(path);
  const name = await importName(path);
  cli.out.note(`Uploading ${name} (${Math.ceil(size / 1024 ** 2)} MiB) to node ${place.node}`);
  await finished(cli, await sendFile(cli, place, { path, name, size }, { content: "import" }));
  return `${place.storage}:import/${name}`;
}

/** Storages know formats by their extension: `.img` and the like get the one their first bytes tell. */
async function importName(path: string): Promise<string> {
  const safe = basename(path).replaceAll(/[^\w.+-]/g, "_");
  if (IMPORTED.test(safe)) return safe;
  const file = await open(path);
  try {
    const head = Buffer.alloc(4);
    await file.read(head, 0, 4, 0);
    const isQcow2 = head.toString("latin1") === QCOW2_MAGIC;
    return `${safe.replace(/\.(?:img|bin|image)$/i, "")}.${isQcow2 ? "qcow2" : "raw"}`;
  } finally {
    await file.close();
  }
}

async function exists(client: GpveClient, volume: string, place: ImagePlace): Promise<boolean> {
  const rows = await client.pve.list("/nodes/{node}/storage/{storage}/content", {
    ...place,
    content: "import",
  });
  return rows.some((row) => row["volid"] === volume);
}

async function finished(cli: Cli, answer: unknown): Promise<void> {
  if (!isUpid(answer)) return;
  const client = await cli.client();
  await client.requireTask(answer, { signal: cli.signal, onLog: (line) => cli.out.note(`  ${line}`) });
}
