// Machine configurations against those that Talos' developers keep to notice changes of their own generator: the same
// secrets and inputs must give the same documents.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseConfig, writeConfig } from "../../packages/talos/src/config/config-text.ts";
import { generateConfig } from "../../packages/talos/src/config/generate-config.ts";
import { configInputs, type ConfigInputs } from "../../packages/talos/src/config/inputs.ts";
import { contractOf } from "../../packages/talos/src/contract/contracts.ts";
import { applyPatches } from "../../packages/talos/src/patch/apply-patches.ts";
import { parseBundle, writeBundle } from "../../packages/talos/src/secrets/bundle-file.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "talos-config");
const present = existsSync(suite);
if (!present) {
  console.warn(`SKIPPED Talos conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`);
}
const read = (...path: string[]): string => readFileSync(join(suite, ...path), "utf8");

const cases = present
  ? readdirSync(suite, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) => readdirSync(join(suite, name)).map((file) => [name, file] as const))
      .filter(([, file]) => /^(base|overrides)-(controlplane|worker)\.yaml$/.test(file))
  : [];

const standInHost = "ghcr.io.my-mirror.com";
const overrides: Partial<ConfigInputs> = {
  extraSans: ["foo", "bar"],
  allowSchedulingOnControlPlanes: true,
  dnsDomain: "example.com",
  installDisk: "/dev/vda",
  installExtraKernelArgs: ["foo=bar", "bar=baz"],
  localApiServerPort: 5443,
  sysctls: { foo: "bar" },
  cni: { type: "custom", url: "https://example.com/cni.yaml" },
  registryMirrors: { "ghcr.io": [`https://${standInHost}`] },
};

test.skipIf(!present)("Talos' own secrets bundle is written as it was read", () => {
  const text = read("secrets.yaml");
  expect(writeBundle(parseBundle(text))).toBe(text.replace(/^#.*\n/gm, ""));
});

describe.skipIf(!present)("Talos' own machine configurations", () => {
  let same = 0;
  let sameText = 0;
  afterAll(() =>
    console.log(
      `talos-config: ${same} of ${cases.length} equal as documents, ${sameText} of them byte for byte`,
    ),
  );

  test.each(cases)("%s %s", (contractName, file) => {
    const contract = contractOf(contractName);
    const isOverridden = file.startsWith("overrides-");
    const inputs = configInputs({
      contract,
      secrets: parseBundle(read("secrets.yaml")),
      clusterName: "base",
      endpoint: "https://base:6443",
      kubernetesVersion: "1.28.0",
      ...(isOverridden ? overrides : {}),
    });
    const patch = contract.kubernetes === "document" ? "patch.yaml" : "patch-pre14.yaml";
    const { documents } = applyPatches(
      generateConfig(file.includes("worker") ? "worker" : "controlplane", inputs),
      isOverridden ? [{ source: patch, text: read(patch) }] : [],
      "generator",
    );
    const expected = read(contractName, file);
    expect(documents).toEqual(parseConfig(expected, file));
    const text = writeConfig(documents);
    expect(parseConfig(text, "our text")).toEqual(documents);
    same++;
    if (text === expected) sameText++;
  });
});
