import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { HeldImage } from "@gpve/talos/image/image-pins.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { yesOption } from "./apply.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { imageWays } from "./open.ts";

export const talosImageList: CommandSpec = {
  name: "talos image list",
  summary: "show the images that machines are made from, with the SHA-256 that each is held to",
  details:
    "An image is read once from here, at its first fetch, for its SHA-256; platforms are told it from then on, and keep nothing else under that name. Nothing is fetched by this.",
  options: [fileOption],
  examples: ["talos image list", "talos image list --output json"],
  doing: (input) => `list the images of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const rows = (await wantedImages(await openFolder(cli, input))).map((image) => ({
        name: image.name,
        url: image.url,
        sha256: image.sha256 ?? null,
        heldBy: image.heldBy ?? null,
        unpinned: image.unpinned ?? null,
        held: heldText(image),
      }));
      if (!cli.out.forPeople) cli.out.data(rows.map(({ held: _forPeople, ...row }) => row));
      else
        cli.out.text(
          cli.out.table(rows, [
            { header: "IMAGE", field: "name", whole: true },
            { header: "HELD TO", field: "held", whole: true },
          ]),
        );
      return 0;
    }),
};

export const talosImageAccept: CommandSpec = {
  name: "talos image accept",
  summary: "hold to an image as it is now, whatever it was before",
  details:
    "For an image that a factory built again, or a file that was replaced, when that is meant: it is read once, shown beside what was pinned, and pinned after a yes. Machines and images that are on nodes already stay as they are.",
  arguments: [{ name: "<name>", about: "the image, as `talos image list` and findings show it" }],
  options: [
    fileOption,
    { flags: "--sha256 <sum>", about: "hold to this, without reading the image" },
    yesOption,
  ],
  examples: ["talos image accept talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2"],
  doing: (input) => `accept an image of ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const { takeLease } = await import("@gpve/talos/folder/lease.ts");
      const lease = takeLease(place.folder, place.cluster.metadata.name);
      try {
        // Another command may have ended meanwhile.
        return await accept(cli, input, await openFolder(cli, input));
      } finally {
        lease.release();
      }
    }),
};

async function accept(cli: Cli, input: Input, place: ClusterFolder): Promise<number> {
  const image = await needImage(place, input.arg("name"));
  const before = image.sha256;
  const sha256 = sumOf(input.text("sha256")) ?? (await readSum(cli, place, image));
  if (sha256 === before) {
    cli.out.done(`${image.name} is what is pinned: ${sha256}.`);
    return 0;
  }
  cli.out.note(`${image.name}: ${before ?? "held to nothing"} -> ${sha256}`);
  const question = "Hold to that from now on? Only yes is taken: ";
  if (!input.flag("yes") && (await cli.io.ask(question)).trim() !== "yes") {
    cli.out.done("Nothing was changed.");
    return 1;
  }
  const [{ writeLock }, { withPin }, { keepCopies, ownFiles }, { secretsPath }] = await Promise.all([
    import("@gpve/talos/folder/lock-file.ts"),
    import("@gpve/talos/image/image-pins.ts"),
    import("@gpve/talos/folder/own-files.ts"),
    import("@gpve/talos/folder/secrets-store.ts"),
  ]);
  const { folder, cluster, lock } = place;
  keepCopies(folder, cluster.metadata.name, ownFiles(place, secretsPath(place)), cli.io.clock.now());
  writeLock(folder, withPin(lock, image.name, sha256));
  cli.out.done(`${image.name} is held to ${sha256}. Nodes that have an image of that name keep theirs.`);
  return 0;
}

async function wantedImages({ cluster, machines, lock }: ClusterFolder): Promise<readonly HeldImage[]> {
  const { heldImages } = await import("@gpve/talos/image/image-pins.ts");
  return heldImages(cluster, machines, lock);
}

async function needImage(place: ClusterFolder, name: string): Promise<HeldImage> {
  const image = (await wantedImages(place)).find((each) => each.name === name);
  if (image === undefined) {
    throw new AppError("object.not_found", `no machine of the file is made from an image "${name}"`, {
      data: { next: "See those they are made from with: gpvectl talos image list" },
    });
  }
  if (image.heldBy === "file") {
    throw new AppError("object.conflict", `image.sha256 in ${place.file} says what ${name} must be`, {
      data: { next: "Correct it there, with: gpvectl talos set image.sha256=SUM" },
    });
  }
  return image;
}

async function readSum(cli: Cli, place: ClusterFolder, image: HeldImage): Promise<string> {
  const [{ foundDigest }, { sourceWays }] = await Promise.all([
    import("@gpve/talos/image/image-source.ts"),
    import("@gpve/talos/image/cluster-images.ts"),
  ]);
  const ways = await imageWays(cli, place);
  return foundDigest(
    image,
    sourceWays({ place, ...ways }, (note) => cli.out.note(note), cli.signal),
  );
}

function sumOf(text: string | undefined): string | undefined {
  if (text === undefined || /^[0-9a-f]{64}$/.test(text)) return text;
  throw new AppError("request.invalid", `"${text}" is no SHA-256 in hex: 64 digits and small letters`);
}

function heldText({ sha256, heldBy, unpinned }: HeldImage): string {
  if (sha256 !== undefined) return `${sha256}${heldBy === "file" ? " (image.sha256)" : ""}`;
  return unpinned === undefined ? "what its first fetch gives" : `nothing: ${unpinned.why}`;
}
