// DIR/credentials.json, written by `gpve up`: whoever may read it needs no login.
import { readFile } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";

export interface LocalCredentials {
  readonly url: string;
  readonly fingerprint: string | undefined;
  readonly caFile: string | undefined;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly token: string | undefined;
}

/** undefined when the directory has no such file. */
export async function readCredentials(dataDir: string): Promise<LocalCredentials | undefined> {
  const path = join(dataDir, "credentials.json");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (err) {
    if (isMissingFile(err)) return undefined;
    throw new AppError("access.denied", `cannot read ${path}`, {
      cause: err,
      data: { next: "Run this as the user who ran `gpve up`, or log in: gpvectl login URL." },
    });
  }
  return parseCredentials(text, path, dataDir);
}

export function parseCredentials(text: string, path: string, dataDir: string): LocalCredentials {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (err) {
    throw new AppError("config.invalid", `${path} is not JSON`, { cause: err });
  }
  const url = isObject(body) ? body["url"] : undefined;
  if (!isObject(body) || typeof url !== "string") {
    throw new AppError("config.invalid", `${path} names no url`);
  }
  const value = (key: string): string | undefined => {
    const given = body[key];
    return typeof given === "string" && given !== "" ? given : undefined;
  };
  const caFile = value("caFile");
  return {
    url,
    fingerprint: value("fingerprint"),
    caFile: caFile === undefined || isAbsolute(caFile) ? caFile : resolve(dataDir, caFile),
    username: value("username"),
    password: value("password"),
    token: value("token"),
  };
}
