// Passwords are stored hashed; one that already is a hash is kept. cloudbase-init on Windows needs the plain text.
import type { VmValues } from "../config/vm-config.ts";
import { isWindows } from "./cloudinit-source.ts";

/** `values`: the configuration the password will belong to, for its `ostype`. */
export function cloudinitPasswordNeedsHash(password: string, values: VmValues): boolean {
  return !isWindows(values) && !/^\$(?:[156]|2[ay])(?:\$.+){2}/.test(password);
}
