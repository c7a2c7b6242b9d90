// Images for tests that need a real Linux inside.
import { cachedImage, defaultImageCache } from "@gpve/agent/infrastructure/images/image-cache.ts";
import { tinyRecipe } from "@gpve/agent/infrastructure/images/tiny/build-tiny.ts";
import { exec } from "@gpve/kit/exec.ts";

/**
 * The path of a bootable qcow2 of about 25 MB with a tiny Linux, built on first use in less than a minute. Shared by
 * all tests: make an overlay or a copy, never write to it. On the first serial port it says `tiny: ready after …`
 * and then is a root shell; qemu-ga answers; `/run/counter` grows every second; port 80 serves the hostname.
 */
export async function tinyImage(): Promise<string> {
  const { path } = await cachedImage(tinyRecipe(exec), defaultImageCache(process.env));
  return path;
}
