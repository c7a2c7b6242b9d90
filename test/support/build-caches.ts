// Where runs on this machine share what takes minutes to build.
import { homedir } from "node:os";
import { join } from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

/** Images of guests, by what they are made of. */
export function defaultImageCache(env: Env): string {
  return env["GPVE_IMAGE_CACHE"] ?? join(cacheFolder(env), "images");
}

/** Programs of virtual clusters. */
export function defaultComponentFolder(env: Env): string {
  return env["GPVE_COMPONENTS"] ?? join(cacheFolder(env), "components");
}

function cacheFolder(env: Env): string {
  return join(env["XDG_CACHE_HOME"] ?? join(env["HOME"] ?? homedir(), ".cache"), "gpve");
}
