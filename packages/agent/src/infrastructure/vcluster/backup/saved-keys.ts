// The keys of a cluster in one file, and back. Certificates of its parts are not among them: they are made anew.
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Identity } from "@gpve/domain/vcluster/backup/identity.ts";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ROTATION_FILES } from "../authority-rotation.ts";
import { REVOKED_FILE } from "../cluster-keys.ts";

const ENCRYPTION = "encryption.json";
const KEPT = [
  "ca.crt",
  "ca.key",
  "front-proxy-ca.crt",
  "front-proxy-ca.key",
  "sa.pub",
  "sa.key",
  ENCRYPTION,
] as const;

/** From a cluster's `pki` folder. */
export function saveKeys(pki: string, file: string): void {
  const texts = [...KEPT, ...ROTATION_FILES].flatMap((name) => {
    const text = readTextFile(join(pki, name));
    return text === undefined ? [] : [[name, text]];
  });
  writeFileAtomic(file, `${JSON.stringify(Object.fromEntries(texts))}\n`);
}

export function loadKeys(file: string, pki: string, identity: Identity): void {
  const saved = readJsonFile(file) as Readonly<Record<string, unknown>> | undefined;
  const textOf = (name: string): string => {
    const text = saved?.[name];
    if (typeof text === "string" && text !== "") return text;
    throw new AppError("request.invalid", `the backup of a virtual cluster lacks its key '${name}'`);
  };
  const wanted = identity === "whole" ? KEPT : [ENCRYPTION];
  // The authority before is there while it is trusted.
  const rotation = identity === "whole" ? ROTATION_FILES.filter((name) => saved?.[name] !== undefined) : [];
  const texts = [...wanted, ...rotation].map((name) => [name, textOf(name)] as const);
  mkdirSync(pki, { recursive: true, mode: 0o700 });
  // What is left was signed by authorities that are not its own any more; what was taken back from somebody is not given back.
  if (identity === "whole")
    for (const name of readdirSync(pki).filter((each) => each !== REVOKED_FILE))
      rmSync(join(pki, name), { recursive: true, force: true });
  for (const [name, text] of texts) writeFileAtomic(join(pki, name), text);
}
