// The secrets bundle beside cluster.yaml, encrypted. Made once; it is the cluster's identity ever after.
import { copyFileSync, existsSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { contracts } from "../contract/contracts.ts";
import { findAgeKeys } from "../secrets/age-keys.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { parseBundle, writeBundle } from "../secrets/bundle-file.ts";
import { generateBundle } from "../secrets/generate-bundle.ts";
import { isSealed, sealText, unsealText } from "../secrets/sealed-text.ts";
import type { ClusterFolder, Surroundings } from "./cluster-folder.ts";

type Place = Pick<ClusterFolder, "folder" | "cluster">;

export function secretsPath({ folder, cluster }: Place): string {
  const { file } = cluster.secrets;
  return isAbsolute(file) ? file : join(folder, file);
}

/** undefined: none were made yet. */
export async function readSecrets(place: Place, around: Surroundings): Promise<SecretsBundle | undefined> {
  const path = secretsPath(place);
  const text = readTextFile(path);
  if (text === undefined) return undefined;
  const { file, recipients } = place.cluster.secrets;
  if (!isSealed(text)) refusePlain(path, file);
  return parseBundle(await unsealText(text, await findAgeKeys(around), file, recipients));
}

export interface OpenedSecrets {
  readonly bundle: SecretsBundle;
  readonly isNew: boolean;
}

/** Makes and keeps them when there are none, unless the cluster was already made with others. */
export async function openSecrets(place: ClusterFolder, around: Surroundings): Promise<OpenedSecrets> {
  const opened = await draftSecrets(place, around);
  if (opened.isNew) await writeSecrets(place, opened.bundle, around);
  return opened;
}

/** The same for whoever only looks: new ones, which fit nothing that is there, are not kept. */
export async function draftSecrets(place: ClusterFolder, around: Surroundings): Promise<OpenedSecrets> {
  const known = await readSecrets(place, around);
  if (known !== undefined) return { bundle: known, isNew: false };
  if (place.lock.appliedAt !== null) {
    throw new AppError(
      "object.not_found",
      `${place.cluster.secrets.file} is gone, and ${place.cluster.metadata.name} was made with it on ${place.lock.appliedAt}: new secrets would not fit`,
      { data: { finding: "secrets-gone", next: "Take it from a backup." } },
    );
  }
  const bundle = await generateBundle(contracts[place.cluster.versions.contract], around.now);
  return { bundle, isNew: true };
}

export async function writeSecrets(place: Place, bundle: SecretsBundle, around: Surroundings): Promise<void> {
  const sealed = await sealText(writeBundle(bundle), place.cluster.secrets, around.now);
  writeFileAtomic(secretsPath(place), sealed);
}

/** The name of the copy that was kept of what was there before. */
export async function importSecrets(
  place: ClusterFolder,
  text: string,
  source: string,
  around: Surroundings,
): Promise<string | undefined> {
  const { cluster, lock } = place;
  if (lock.appliedAt !== null) {
    throw new AppError(
      "object.conflict",
      `${cluster.metadata.name} runs with its secrets since ${lock.appliedAt}: other ones would lock everybody out`,
      {
        data: {
          finding: "secrets-applied",
          next: "Nothing was changed. For a new cluster, use a folder of its own.",
        },
      },
    );
  }
  const bundle = parseBundle(await unsealText(text, await findAgeKeys(around), source));
  const copy = keepCopy(secretsPath(place), around.now);
  await writeSecrets(place, bundle, around);
  return copy;
}

function keepCopy(path: string, now: number): string | undefined {
  if (!existsSync(path)) return undefined;
  const stamp = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const copy = `${path}.${stamp}.bak`;
  copyFileSync(path, copy);
  return copy;
}

function refusePlain(path: string, file: string): never {
  const mode = (statSync(path).mode & 0o777).toString(8);
  throw new AppError("config.invalid", `${file} is not encrypted (mode ${mode})`, {
    data: {
      finding: "secrets-plain",
      next: `Move it away and take it in encrypted: gpvectl talos secrets import FILE.`,
    },
  });
}
