import { chmod, mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadMasterKey } from "./master-key.ts";
import { createPasswordHasher } from "./password-hasher.ts";
import { createSealer } from "./sealer.ts";
import { tokenSecrets } from "./token-secrets.ts";

describe("sealed secrets", () => {
  const sealer = createSealer(new Uint8Array(32).fill(1));

  test("open where they were sealed, and nowhere else", () => {
    const sealed = sealer.seal("geheim ✓", "a/b");
    expect(sealer.open(sealed, "a/b")).toBe("geheim ✓");
    expect(sealed).not.toContain("geheim");
    expect(() => sealer.open(sealed, "a/c")).toThrow("cannot open the secret 'a/c'");
    expect(() => createSealer(new Uint8Array(32)).open(sealed, "a/b")).toThrow("another master key");
  });

  test("changed or cut ones are refused", () => {
    const sealed = sealer.seal("secret", "x");
    fc.assert(
      fc.property(fc.nat({ max: sealed.length - 1 }), fc.constantFrom("A", "", "%", "v"), (at, letter) => {
        const changed = sealed.slice(0, at) + letter + sealed.slice(at + 1);
        if (
          Buffer.from(changed.slice(3), "base64").equals(Buffer.from(sealed.slice(3), "base64")) &&
          changed.startsWith("v1.")
        )
          return;
        expect(() => sealer.open(changed, "x")).toThrow("cannot open the secret");
      }),
    );
  });

  test("a key of the wrong size is refused", () => {
    expect(() => createSealer(new Uint8Array(16))).toThrow("must have 32 bytes");
  });
});

describe("the master key", () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "gpve-key-"));
  });
  afterEach(() => rm(dir, { recursive: true }));

  test("is made once, for its owner only, and read afterwards", async () => {
    const file = join(dir, "secrets", "master.key");
    const keys = await Promise.all(Array.from({ length: 8 }, () => loadMasterKey(file)));
    expect(new Set(keys.map((key) => Buffer.from(key).toString("hex"))).size).toBe(1);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(join(dir, "secrets"))).toEqual(["master.key"]);
    expect(Buffer.from(await loadMasterKey(file)).toString("hex")).toBe(
      (await readFile(file, "utf8")).trim(),
    );
  });

  test("a damaged or exposed file is refused, not replaced", async () => {
    const file = join(dir, "master.key");
    await writeFile(file, "abc", { mode: 0o600 });
    await expect(loadMasterKey(file)).rejects.toThrow("is damaged");
    await chmod(file, 0o644);
    await expect(loadMasterKey(file)).rejects.toThrow("readable by others");
    await expect(loadMasterKey(dir)).rejects.toThrow();
  });
});

describe("password hashes", () => {
  test("verify the password they were made of, with the cost written in them", async () => {
    const hash = await createPasswordHasher({ memoryKiB: 64, passes: 1, parallelism: 1 }).hash("pä ss");
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=64,t=1,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    const hasher = createPasswordHasher();
    expect(await hasher.verify("pä ss", hash)).toBe(true);
    expect(await hasher.verify("pa ss", hash)).toBe(false);
  });

  test("the usual cost is that of a careful installation", async () => {
    expect(await createPasswordHasher().hash("x")).toContain("$m=19456,t=2,p=1$");
  });

  test("what is no hash, or asks for too much, matches nothing", async () => {
    const hasher = createPasswordHasher();
    const tail = "c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA";
    for (const hash of [
      "",
      "$1$abc",
      `$argon2id$v=19$m=99999999,t=1,p=1$${tail}`,
      `$argon2id$v=19$m=64,t=99,p=1$${tail}`,
      `$argon2id$v=19$m=64,t=0,p=1$${tail}`,
      `$argon2id$v=19$m=4,t=1,p=1$${tail}`,
    ]) {
      expect(await hasher.verify("x", hash)).toBe(false);
    }
  });
});

test("token secrets are UUIDs of which only a digest is kept", () => {
  const secret = tokenSecrets.generate();
  const digest = tokenSecrets.digest(secret);
  expect(secret).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(tokenSecrets.matches(secret, digest)).toBe(true);
  expect(tokenSecrets.matches(`${secret} `, digest)).toBe(false);
  expect(tokenSecrets.matches(secret, "zz")).toBe(false);
});
