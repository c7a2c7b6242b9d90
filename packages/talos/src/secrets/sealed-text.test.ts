import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { createAgeKey, findAgeKeys } from "./age-keys.ts";
import { type AgeIdentity, newAgeIdentity } from "./age-text.ts";
import { readReference } from "./secret-reference.ts";
import { sealText, unsealText } from "./sealed-text.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const text = 'a: secret value\nb:\n  list:\n    - one\n    - 2\n    - true\n  empty: ""\n';
let own: AgeIdentity;
let other: AgeIdentity;
let folder = "";

beforeAll(async () => {
  own = await newAgeIdentity();
  other = await newAgeIdentity();
  folder = mkdtempSync(join(tmpdir(), "gpve-sealed-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const keys = (...identities: readonly AgeIdentity[]) => ({ identities, places: ["keys.txt"] });

describe.each(["age", "sops"])("%s", (backend) => {
  const seal = (...recipients: readonly string[]) => sealText(text, { backend, recipients }, NOW);

  test("what was sealed for several is opened by each of them, and shows nothing before", async () => {
    const sealed = await seal(own.recipient, other.recipient);
    expect(sealed).not.toContain("secret value");
    for (const identity of [own, other]) {
      expect(parse(await unsealText(sealed, keys(identity), "s"))).toEqual(parse(text));
    }
  });

  test("a wrong key gets a clear answer that names both sides", async () => {
    const sealed = await seal(own.recipient);
    const refused = unsealText(sealed, keys(other), "secrets.enc.yaml", [own.recipient]);
    await expect(refused).rejects.toMatchObject({
      code: "access.denied",
      message: `no key here opens secrets.enc.yaml: the keys found are those of ${other.recipient}; it should be encrypted for ${own.recipient}`,
      data: { finding: "age-key-wrong" },
    });
    await expect(unsealText(sealed, keys(), "secrets.enc.yaml")).rejects.toMatchObject({
      message: "secrets.enc.yaml is encrypted, and there is no age key in keys.txt",
      data: { finding: "age-key-missing" },
    });
  });

  test("a changed byte is noticed", async () => {
    const sealed = await seal(own.recipient);
    const at = Math.floor(sealed.length / 3);
    const letter = sealed[at] === "A" ? "B" : "A";
    const changed =
      backend === "sops"
        ? stringify({ ...(parse(sealed) as object), extra: "added" })
        : `${sealed.slice(0, at)}${letter}${sealed.slice(at + 1)}`;
    await expect(unsealText(changed, keys(own), "s")).rejects.toMatchObject({
      data: { finding: "secrets-damaged" },
    });
  });

  test("without recipients nothing is written, and what is no recipient is named", async () => {
    await expect(seal()).rejects.toMatchObject({ data: { finding: "recipients-missing" } });
    await expect(seal("age1nonsense")).rejects.toMatchObject({ data: { finding: "recipient-wrong" } });
  });
});

test("a value of a SOPS file cannot be moved to another place", async () => {
  const sealed = await sealText("a: one\nb: two\n", { backend: "sops", recipients: [own.recipient] }, NOW);
  const tree = parse(sealed) as Record<string, unknown>;
  const swapped = stringify({ ...tree, a: tree["b"], b: tree["a"] });
  await expect(unsealText(swapped, keys(own), "s")).rejects.toThrow("was changed without SOPS");
});

test("a SOPS file without age recipients is refused as such", async () => {
  const sealed = await sealText("a: one\n", { backend: "sops", recipients: [own.recipient] }, NOW);
  const { sops, ...rest } = parse(sealed) as { sops: Record<string, unknown> };
  const foreign = stringify({ ...rest, sops: { ...sops, age: undefined, kms: [] } });
  await expect(unsealText(foreign, keys(own), "s")).rejects.toThrow("has no age recipients");
});

test("keys are found where SOPS looks, and made there", async () => {
  const places = { env: {}, homeDir: folder };
  expect((await findAgeKeys(places)).identities).toEqual([]);
  const made = await createAgeKey(places, NOW);
  expect(made.file).toBe(join(folder, ".config/sops/age/keys.txt"));
  expect(statSync(made.file).mode & 0o777).toBe(0o600);
  expect(readFileSync(made.file, "utf8")).toContain(`# public key: ${made.recipient}`);
  const named = join(folder, "other.txt");
  writeFileSync(named, `${other.secret}\n`);
  const env = { SOPS_AGE_KEY: own.secret, SOPS_AGE_KEY_FILE: named };
  const found = await findAgeKeys({ env, homeDir: folder });
  expect(found.identities.map(({ recipient }) => recipient)).toEqual([
    own.recipient,
    other.recipient,
    made.recipient,
  ]);
  const broken = findAgeKeys({ env: { SOPS_AGE_KEY: "AGE-SECRET-KEY-1TYPO" }, homeDir: folder });
  await expect(broken).rejects.toThrow("SOPS_AGE_KEY holds a line that is no age key");
  await expect(broken).rejects.not.toThrow("TYPO");
});

test("a token is read from where its reference points", async () => {
  const places = { env: { TOKEN: " root@pam!t=1 ", SOPS_AGE_KEY: own.secret }, homeDir: folder };
  const read = (reference: Parameters<typeof readReference>[0]) => readReference(reference, folder, places);
  const recipients = [own.recipient];
  writeFileSync(join(folder, "plain"), "root@pam!t=2\n");
  writeFileSync(join(folder, "t.age"), await sealText("root@pam!t=3\n", { backend: "age", recipients }, NOW));
  const tree = "pve:\n  token: root@pam!t=4\n";
  writeFileSync(join(folder, "t.sops.yaml"), await sealText(tree, { backend: "sops", recipients }, NOW));
  expect(await read({ env: "TOKEN" })).toBe("root@pam!t=1");
  expect(await read({ file: "plain" })).toBe("root@pam!t=2");
  expect(await read({ age: "t.age" })).toBe("root@pam!t=3");
  expect(await read({ sops: "t.sops.yaml#pve.token" })).toBe("root@pam!t=4");
  for (const [reference, message] of [
    [{ env: "NONE" }, "the environment variable NONE is not set"],
    [{ file: "none" }, "there is no file none"],
    [{ sops: "t.sops.yaml#pve.other" }, "t.sops.yaml has no text at pve.other"],
  ] as const) {
    await expect(read(reference)).rejects.toMatchObject({ message, data: { finding: "secret-reference" } });
  }
});
