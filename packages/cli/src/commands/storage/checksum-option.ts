import { AppError } from "@gpve/contracts/errors.ts";
import type { OptionSpec } from "../../command.ts";

export const checksumOption: OptionSpec = {
  flags: "--checksum <algorithm:value>",
  about: "what the file must hash to: sha256:9f86… (md5, sha1, sha224, sha256, sha384, sha512)",
};

export interface Checksum {
  readonly "checksum-algorithm": "md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512";
  readonly checksum: string;
}

export function checksumOf(text: string | undefined): Checksum | undefined {
  if (text === undefined) return undefined;
  const match = /^(md5|sha1|sha224|sha256|sha384|sha512):([0-9a-fA-F]+)$/.exec(text);
  if (match === null) {
    throw new AppError("request.invalid", `"${text}" is not a checksum; write it as sha256:9f86…`);
  }
  return {
    "checksum-algorithm": match[1] as Checksum["checksum-algorithm"],
    checksum: match[2] ?? "",
  };
}

export const receivedContents = ["iso", "vztmpl", "import"] as const;
export type ReceivedContent = (typeof receivedContents)[number];

export const contentOption: OptionSpec = {
  flags: "--content <type>",
  about: "what it is: an ISO image, a container template, a disk image (by the file's extension)",
  choices: receivedContents,
};

/** What a file most likely is, by its name. */
export function contentOfName(stated: string | undefined, name: string): ReceivedContent {
  if (stated !== undefined) return stated as ReceivedContent;
  if (/\.(?:iso|img)$/i.test(name)) return "iso";
  if (/\.tar\.(?:gz|xz|zst|bz2)$/i.test(name)) return "vztmpl";
  if (/\.(?:qcow2|raw|vmdk|ova)$/i.test(name)) return "import";
  throw new AppError(
    "request.invalid",
    `cannot tell what ${name} is: say it with --content iso, vztmpl or import`,
  );
}
