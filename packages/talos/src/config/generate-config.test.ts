import { beforeAll, describe, expect, test } from "vitest";
import { contracts, type ContractName } from "../contract/contracts.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { beginRotation, nextPhase, withoutOld } from "../secrets/rotation.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { writeConfig } from "./config-text.ts";
import { generateConfig } from "./generate-config.ts";
import { configInputs, type ConfigInputs, type MachineRole } from "./inputs.ts";

let secrets: SecretsBundle;
const names = Object.keys(contracts) as ContractName[];

beforeAll(async () => {
  secrets = await testBundle();
});

function inputs(contract: ContractName, more: Partial<ConfigInputs> = {}): ConfigInputs {
  return configInputs({
    contract: contracts[contract],
    secrets,
    clusterName: "prod",
    endpoint: "https://10.0.0.9:6443",
    kubernetesVersion: "v1.36.3",
    ...more,
  });
}

function kinds(role: MachineRole, given: ConfigInputs): unknown[] {
  return generateConfig(role, given).map((document) => document["kind"] ?? "v1alpha1");
}

describe.each(names)("%s", (contract) => {
  test("a worker gets no key of an authority and nothing of the control plane", () => {
    const text = writeConfig(generateConfig("worker", inputs(contract)));
    const secret = [
      ...Object.values(secrets.certs).map(({ key }) => key),
      secrets.certs.etcd.crt,
      secrets.certs.k8sAggregator.crt,
    ];
    for (const pem of secret) {
      expect(text).not.toContain(Buffer.from(pem).toString("base64"));
      expect(text).not.toContain(pem.split("\n")[1]);
    }
    expect(text).not.toContain(secrets.encryption.secret);
  });

  test("while authorities are replaced both are accepted, and a worker gets no key of either", async () => {
    const begun = await beginRotation(secrets, { talos: true, kubernetes: true }, 0);
    const encoded = (pem: string): string => Buffer.from(pem).toString("base64");
    const isIn = (text: string, pem: string): boolean =>
      text.includes(encoded(pem)) || text.includes(pem.split("\n")[1] ?? pem);
    for (const bundle of [begun, nextPhase(begun)]) {
      const { os, k8s } = bundle.certs;
      const other = bundle.rotation;
      for (const role of ["worker", "controlplane"] as const) {
        const text = writeConfig(generateConfig(role, inputs(contract, { secrets: bundle })));
        for (const pair of [os, k8s, other?.os, other?.k8s])
          expect(isIn(text, pair?.crt ?? "missing"), role).toBe(true);
        expect(isIn(text, os.key)).toBe(role === "controlplane");
        for (const pair of [other?.os, other?.k8s]) expect(isIn(text, pair?.key ?? "missing")).toBe(false);
      }
    }
    const last = nextPhase(nextPhase(begun));
    expect(generateConfig("worker", inputs(contract, { secrets: last }))).toEqual(
      generateConfig("worker", inputs(contract, { secrets: withoutOld(last) })),
    );
  });

  test("the version is named once, however it is written", () => {
    expect(writeConfig(generateConfig("worker", inputs(contract)))).toContain("kubelet:v1.36.3\n");
  });

  test("switches are written where the contract has them", () => {
    const text = writeConfig(
      generateConfig(
        "controlplane",
        inputs(contract, {
          discovery: false,
          kubeSpan: true,
          kubePrismPort: 0,
          kubeProxy: false,
          cni: { type: "none" },
        }),
      ),
    );
    expect(text).not.toMatch(/kubePrism/i);
    expect(text).not.toContain("KubeFlannelCNIConfig");
    expect(text).not.toContain("DiscoveryServiceConfig");
    expect(text).toMatch(
      contract === "v1.14" ? /kind: KubeProxyConfig\nenabled: false/ : /proxy:\n {8}disabled: true/,
    );
    expect(text).toMatch(
      ["v1.11", "v1.12"].includes(contract)
        ? /kubespan:\n {12}enabled: true/
        : /kind: KubeSpanConfig\nenabled: true/,
    );
    if (contract !== "v1.14") {
      expect(text).toMatch(/cni:\n {12}name: none/);
      expect(text).toMatch(/discovery:\n {8}enabled: false/);
    }
  });

  test("an installer image is written where the disk is", () => {
    const text = writeConfig(
      generateConfig("worker", inputs(contract, { installDisk: "/dev/sda", installImage: "factory/x:v1" })),
    );
    expect(text).toContain("image: factory/x:v1");
    expect(text).toMatch(contract === "v1.14" ? /match: disk.dev_path == "\/dev\/sda"/ : /disk: \/dev\/sda/);
  });
});

test("mirrors come in the order of their names", () => {
  const given = { registryMirrors: { "z.io": ["https://z"], "a.io": ["https://a", "https://b"] } };
  expect(writeConfig(generateConfig("worker", inputs("v1.11", given)))).toMatch(/a\.io:[^]*z\.io:/);
  const documents = generateConfig("worker", inputs("v1.12", given)).filter(
    ({ kind }) => kind === "RegistryMirrorConfig",
  );
  expect(documents.map(({ name }) => name)).toEqual(["a.io", "z.io"]);
});

test("documents grow from contract to contract", () => {
  expect(kinds("worker", inputs("v1.11"))).toEqual(["v1alpha1"]);
  expect(kinds("worker", inputs("v1.12"))).toEqual(["v1alpha1", "HostnameConfig"]);
  expect(kinds("controlplane", inputs("v1.14"))).toHaveLength(28);
});

test("the endpoint's host is a name of the API server up to v1.11, without the brackets of IPv6", () => {
  const endpoint = "https://[fd00::9]:6443";
  expect(writeConfig(generateConfig("controlplane", inputs("v1.11", { endpoint })))).toMatch(
    /certSANs:\n {12}- fd00::9\n/,
  );
  expect(writeConfig(generateConfig("controlplane", inputs("v1.12", { endpoint })))).not.toContain(
    "- fd00::9",
  );
});

test("AES-CBC is kept up to v1.13 and refused after", () => {
  const old: SecretsBundle = { ...secrets, encryption: { ...secrets.encryption, kind: "aescbc" } };
  expect(writeConfig(generateConfig("controlplane", inputs("v1.13", { secrets: old })))).toContain(
    "aescbcEncryptionSecret:",
  );
  expect(() => inputs("v1.14", { secrets: old })).toThrow("keep v1.13");
});

test.each([
  [{ clusterName: "" }, "needs a name"],
  [{ kubernetesVersion: "1.36" }, '"1.36" is no Kubernetes version'],
  [{ endpoint: "10.0.0.9:6443" }, "is no https URL"],
  [{ endpoint: "http://10.0.0.9:6443" }, "is no https URL"],
])("%j is refused", (given, message) => {
  expect(() => inputs("v1.13", given)).toThrow(message);
});
