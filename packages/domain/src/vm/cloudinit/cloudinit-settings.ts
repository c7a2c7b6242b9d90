// What a client sets for cloud-init, checked and made fit to be stored.
import { refused } from "../../request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { VmValues } from "../config/vm-config.ts";
import { cloudinitPasswordNeedsHash } from "./cloudinit-password.ts";
import { sshKeys } from "./cloudinit-source.ts";

/** `current`: the configuration these values change. */
export function storedCloudinitValues(
  set: VmValues,
  current: VmValues,
  hashPassword: (password: string) => string,
): VmValues {
  for (const key of sshKeys(set) ?? []) if (!isSshKey(key)) throw badKey();
  const password = set["cipassword"];
  if (password === undefined || !cloudinitPasswordNeedsHash(password, { ...current, ...set })) return set;
  return { ...set, cipassword: hashPassword(password) };
}

/** A line of authorized_keys: options perhaps, the kind of key, and a key that says it is of that kind. */
export function isSshKey(line: string): boolean {
  const words = line.trim().split(/\s+/);
  return words.some((kind, at) => {
    const data = words[at + 1];
    return data !== undefined && /^[\w@.-]+$/.test(kind) && kindInside(data) === kind;
  });
}

/** The first field of a key: its length as four bytes, then the name of its kind. */
function kindInside(base64: string): string | undefined {
  if (!/^[A-Za-z0-9+/]{20,}={0,2}$/.test(base64) || base64.length % 4 !== 0) return undefined;
  const bytes = atob(base64);
  const length = [0, 1, 2, 3].reduce((sum, at) => sum * 256 + bytes.charCodeAt(at), 0);
  return length < 64 && bytes.length > 4 + length ? bytes.slice(4, 4 + length) : undefined;
}

function badKey(): AppError {
  return refused("SSH public key validation error");
}
