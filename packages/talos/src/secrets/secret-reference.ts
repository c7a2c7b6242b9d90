// A secret that cluster.yaml refers to: {env: NAME}, {file: PATH}, {age: PATH} or {sops: PATH#key.of.value}.
import { isAbsolute, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { parse } from "yaml";
import { findAgeKeys, type KeyPlaces } from "./age-keys.ts";
import { unsealText } from "./sealed-text.ts";

export interface SecretReference {
  readonly env?: string;
  readonly file?: string;
  readonly sops?: string;
  readonly age?: string;
}

/** Paths are relative to `folder`. Errors name the reference, never what it holds. */
export async function readReference(
  reference: SecretReference,
  folder: string,
  places: KeyPlaces,
): Promise<string> {
  const { env, file, age, sops } = reference;
  const text = (path: string): string => {
    const content = readTextFile(isAbsolute(path) ? path : join(folder, path));
    return content ?? missing(`there is no file ${path}`);
  };
  if (env !== undefined) {
    return places.env[env]?.trim() || missing(`the environment variable ${env} is not set`);
  }
  if (file !== undefined) return text(file).trim() || missing(`${file} is empty`);
  const [path = "", key] = (age ?? sops ?? "").split("#");
  const plain = await unsealText(text(path), await findAgeKeys(places), path);
  if (key === undefined) return plain.trim() || missing(`${path} is empty`);
  const value = key.split(".").reduce<unknown>(
    (at, part) => {
      return typeof at === "object" && at !== null ? (at as Record<string, unknown>)[part] : undefined;
    },
    parsed(plain, path),
  );
  return typeof value === "string" && value !== "" ? value : missing(`${path} has no text at ${key}`);
}

function parsed(plain: string, path: string): unknown {
  try {
    return parse(plain, { logLevel: "error" }) as unknown;
  } catch {
    // The parser quotes what it stopped at.
    return missing(`${path} is no YAML`);
  }
}

function missing(message: string): never {
  throw new AppError("config.invalid", message, { data: { finding: "secret-reference" } });
}
