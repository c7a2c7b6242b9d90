// Images for tests that need a real Linux inside.
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { cachedImage } from "@gpve/agent/infrastructure/images/image-cache.ts";
import { defaultImageCache } from "./build-caches.ts";
import { tinyRecipe } from "@gpve/agent/infrastructure/images/tiny/build-tiny.ts";
import { exec } from "@gpve/kit/exec.ts";

/**
 * The path of a bootable qcow2 of about 25 MB with a tiny Linux, built on first use in less than a minute. Shared by
 * all tests: make an overlay or a copy, never write to it. On the first serial port it says `tiny: ready after …`
 * and then is a root shell; qemu-ga answers; `/run/counter` grows every second; port 80 serves the hostname;
 * SSH lets in keys and passwords of a cloud-init drive.
 */
export async function tinyImage(): Promise<string> {
  const { path } = await cachedImage(tinyRecipe(exec), defaultImageCache(process.env));
  return path;
}

/** Puts the tiny image where an upload would: `local:import/<name>` of a started gpve. */
export async function uploadImage(gpve: { readonly data: string }, name: string): Promise<string> {
  const folder = join(gpve.data, "storage/local/import");
  mkdirSync(folder, { recursive: true });
  copyFileSync(await tinyImage(), join(folder, name));
  return `local:import/${name}`;
}
