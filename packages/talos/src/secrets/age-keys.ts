// Where a person's age keys are: the places that SOPS looks at, so that both tools find the same ones.
import { chmodSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { type AgeIdentity, ageIdentity, newAgeIdentity } from "./age-text.ts";

export interface KeyPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly homeDir: string;
}

export interface FoundKeys {
  readonly identities: readonly AgeIdentity[];
  /** Where was looked, for messages. */
  readonly places: readonly string[];
}

export async function findAgeKeys({ env, homeDir }: KeyPlaces): Promise<FoundKeys> {
  const files = [env["SOPS_AGE_KEY_FILE"], defaultKeyFile({ env, homeDir })].filter(
    (file): file is string => file !== undefined && file !== "",
  );
  const texts = [
    ...(env["SOPS_AGE_KEY"] === undefined ? [] : [{ place: "SOPS_AGE_KEY", text: env["SOPS_AGE_KEY"] }]),
    ...files.map((file) => ({ place: file, text: readTextFile(file) ?? "" })),
  ];
  const found = texts.flatMap(({ place, text }) =>
    text
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((secret) => ageIdentity(secret, place)),
  );
  return { identities: await Promise.all(found), places: texts.map(({ place }) => place) };
}

export function defaultKeyFile({ env, homeDir }: KeyPlaces): string {
  const config = env["XDG_CONFIG_HOME"];
  const folder = config === undefined || config === "" ? join(homeDir, ".config") : config;
  return join(folder, "sops", "age", "keys.txt");
}

/** Makes a key where there is none yet. */
export async function createAgeKey(places: KeyPlaces, now: number): Promise<AgeIdentity & { file: string }> {
  const file = places.env["SOPS_AGE_KEY_FILE"] ?? defaultKeyFile(places);
  const identity = await newAgeIdentity();
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const created = new Date(now).toISOString();
  const text = `# created: ${created}\n# public key: ${identity.recipient}\n${identity.secret}\n`;
  writeFileAtomic(file, `${readTextFile(file) ?? ""}${text}`);
  chmodSync(file, 0o600);
  return { ...identity, file };
}
