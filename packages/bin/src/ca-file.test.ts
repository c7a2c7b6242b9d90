import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createAuthority } from "@gpve/kit/pki/x509.ts";
import { readCaFile } from "./ca-file.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-ca-file-"));
afterAll(() => rmSync(dir, { recursive: true }));

test("gives the file's text", async () => {
  const { certPem } = await createAuthority("x", Date.now());
  writeFileSync(join(dir, "ca.crt"), certPem);
  expect(readCaFile(join(dir, "ca.crt"))).toBe(certPem);
});

test("names key, file and what to do where there is none, or no certificate in it", () => {
  const file = join(dir, "none.crt");
  expect(() => readCaFile(file)).toThrow(
    /cannot read server\.caFile .*none\.crt: ENOENT.*; copy pki\/ca\.crt/,
  );
  writeFileSync(file, "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n");
  expect(() => readCaFile(file)).toThrow(/server\.caFile .*none\.crt holds no certificate in PEM/);
});
