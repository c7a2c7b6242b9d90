import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { ComponentFolder, copyPrograms } from "./component-folder.ts";

let folder: string;
let store: ComponentFolder;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-components-"));
  store = new ComponentFolder(join(folder, "components"), systemClock);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function put(version: string, content: string): Promise<void> {
  const work = store.workFolder(`w-${version}`);
  writeFileSync(join(work, "tool"), content);
  await store.put({ name: "tools", version, origin: "import" }, work, ["tool"]);
  store.discard(`w-${version}`);
}

describe("a folder of components", () => {
  test("is empty when nothing was ever installed", () => {
    expect(store.list()).toEqual([]);
    expect(store.get("tools", "1.0")).toBeUndefined();
  });

  test("keeps equal programs once, and each under its component and version", async () => {
    await put("1.0", "same");
    await put("1.1", "same");
    await put("1.2", "other");
    expect(store.list().map(({ version }) => version)).toEqual(["1.0", "1.1", "1.2"]);
    expect(readdirSync(join(folder, "components", "objects"))).toHaveLength(2);
    const [a, b] = ["1.0", "1.1"].map((version) => statSync(store.program("tools", version, "tool")).ino);
    expect(a).toBe(b);
    expect(existsSync(join(folder, "components", ".work", "w-1.0"))).toBe(false);
  });

  test("replaces a version as a whole", async () => {
    await put("1.0", "first");
    await put("1.0", "second");
    expect(store.list()).toHaveLength(1);
    expect(await store.faults("tools", "1.0")).toEqual([]);
  });

  test("says what is wrong with what is there", async () => {
    await put("1.0", "right");
    const path = store.program("tools", "1.0", "tool");
    chmodSync(path, 0o755);
    writeFileSync(path, "wrong");
    expect(await store.faults("tools", "1.0")).toEqual([
      expect.stringContaining("is not what was installed"),
    ]);
    // Installed again it is right again, though its object was the changed file.
    await put("1.0", "right");
    expect(await store.faults("tools", "1.0")).toEqual([]);
    rmSync(path);
    expect(await store.faults("tools", "1.0")).toEqual([expect.stringContaining("is missing")]);
    expect(await store.faults("tools", "9")).toEqual(["tools 9 is not installed"]);
  });

  test("is mended by what it had, brought again", async () => {
    await put("1.0", "right");
    writeFileSync(store.program("tools", "1.0", "tool"), "wrong");
    await put("1.0", "right");
    expect(await store.faults("tools", "1.0")).toEqual([]);
    // Others with the same program have it whole too.
    await put("1.1", "right");
    expect(await store.faults("tools", "1.1")).toEqual([]);
  });

  test("takes nothing when a program is missing, or is a folder", async () => {
    const work = store.workFolder("w");
    mkdirSync(join(work, "tool"));
    const putting = store.put({ name: "tools", version: "1", origin: "import" }, work, ["tool"]);
    await expect(putting).rejects.toThrow("has no program 'tool'");
    expect(store.list()).toEqual([]);
  });

  test("lets one work at a time", async () => {
    const seen: string[] = [];
    const work = (name: string) => async (): Promise<void> => {
      seen.push(`${name} begins`);
      await systemClock.sleep(20);
      seen.push(`${name} ends`);
    };
    const { signal } = new AbortController();
    await Promise.all([
      store.alone("tools", "1", signal, work("a")),
      store.alone("tools", "1", signal, work("b")),
    ]);
    expect(seen.map((text) => text.split(" ")[1])).toEqual(["begins", "ends", "begins", "ends"]);
    await expect(
      store.alone("tools", "1", signal, () =>
        store.alone("tools", "1", AbortSignal.abort(), () => Promise.resolve()),
      ),
    ).rejects.toThrow("waiting for another installation of tools 1 was cancelled");
  });
});

test("programs are imported from a folder, and one that is not in it is named", async () => {
  const [from, to] = [join(folder, "from"), join(folder, "to")];
  for (const each of [from, to]) mkdirSync(each);
  writeFileSync(join(from, "tool"), "x");
  await copyPrograms(from, to, ["tool"]);
  expect(readdirSync(to)).toEqual(["tool"]);
  await expect(copyPrograms(from, to, ["tool", "other"])).rejects.toThrow(
    `cannot import ${join(from, "other")}: there is no such file on this node`,
  );
});
