import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cachedImage } from "./image-cache.ts";
import type { ImageRecipe } from "./image-recipe.ts";

describe("the cache of built images", () => {
  let cache: string;
  let builds: number;
  let inputs: string[];
  let asked: number;
  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), "gpve-cache-"));
    builds = 0;
    asked = 0;
    inputs = ["a"];
  });
  afterEach(() => rmSync(cache, { recursive: true, force: true }));

  const recipe = (more: Partial<ImageRecipe> = {}): ImageRecipe => ({
    name: "thing",
    inputs: async () => {
      asked++;
      return inputs;
    },
    build: async (folder, target, say) => {
      builds++;
      say("building");
      writeFileSync(join(folder, "scrap"), "x");
      writeFileSync(target, inputs.join());
    },
    ...more,
  });

  test("builds equal inputs once, even when asked twice at once, and leaves no scraps", async () => {
    const said: string[] = [];
    const options = { say: (line: string) => void said.push(line) };
    const both = await Promise.all([
      cachedImage(recipe(), cache, options),
      cachedImage(recipe(), cache, options),
    ]);
    expect(new Set(both.map(({ path }) => path)).size).toBe(1);
    expect([builds, said]).toEqual([1, ["building"]]);
    expect(await cachedImage(recipe(), cache)).toMatchObject({ built: false });
    expect(readdirSync(cache)).toHaveLength(1);
    inputs = ["b"];
    expect(await cachedImage(recipe(), cache)).toMatchObject({ built: true });
  });

  test("does not ask for the inputs again while the stamp is the same", async () => {
    let stamp = "1";
    const stamped = recipe({ stamp: () => stamp });
    await cachedImage(stamped, cache);
    await cachedImage(stamped, cache);
    expect(asked).toBe(1);
    stamp = "2";
    await cachedImage(stamped, cache);
    expect([asked, builds]).toEqual([2, 1]);
  });

  test("keeps nothing of a build that failed", async () => {
    const broken = recipe({ build: () => Promise.reject(new Error("no disk")) });
    await expect(cachedImage(broken, cache)).rejects.toThrow("no disk");
    expect(readdirSync(cache)).toEqual([]);
  });

  test("a cancelled wait for another build ends", async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const slow = recipe({ build: async (_, target) => held.then(() => writeFileSync(target, "")) });
    const first = cachedImage(slow, cache);
    const waiting = cachedImage(slow, cache, { signal: AbortSignal.abort() });
    await expect(waiting).rejects.toThrow("cancelled");
    release();
    expect(existsSync((await first).path)).toBe(true);
  });
});
