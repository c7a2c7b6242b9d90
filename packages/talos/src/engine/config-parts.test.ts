import { expect, test } from "vitest";
import type { ConfigDocument } from "../config/document.ts";
import { configDifferences } from "./config-parts.ts";

const config = (mark: string): readonly ConfigDocument[] => [
  {
    machine: {
      token: `token-${mark}`,
      env: { https_proxy: `http://user:pass-${mark}@proxy.example:3128` },
      files: [{ path: "/var/x", content: `password=${mark}` }],
      registries: {
        config: {
          "ghcr.io": { auth: { username: `name-${mark}`, password: `word-${mark}`, auth: `b64-${mark}` } },
        },
      },
      network: {
        interfaces: [{ wireguard: { privateKey: `wire-${mark}`, peers: [{ presharedKey: `pre-${mark}` }] } }],
      },
      sysctls: { "vm.swappiness": mark },
    },
    cluster: { inlineManifests: [{ name: "s", contents: `kind: Secret ${mark}` }] },
  },
  { kind: "RegistryAuthConfig", name: "quay.io", password: `word-${mark}` },
];

test("differences of a configuration are shown, of whatever may be a secret only that it differs", () => {
  const text = configDifferences(config("ONE"), config("TWO")).join("\n");
  expect(text).toContain("machine.sysctls.vm.swappiness: ONE -> TWO");
  expect(text).toContain("username: name-ONE -> name-TWO");
  expect(text).toContain("https_proxy: http://…@proxy.example:3128 -> http://…@proxy.example:3128");
  expect(text).toContain("machine.registries.config.ghcr.io.auth.password: (secret, changed)");
  expect(text).toContain("RegistryAuthConfig/quay.io.password: (secret, changed)");
  expect(text).toContain("cluster.inlineManifests.0.contents: (changed)");
  for (const secret of ["token-", "pass-", "password=", "word-", "b64-", "wire-", "pre-", "Secret"])
    expect(text).not.toContain(secret);
});

test("of environments, headers and arguments that may be secret, and of what addresses are asked with, no value is shown", () => {
  const services = (mark: string): readonly ConfigDocument[] => [
    {
      machine: {
        install: { extraKernelArgs: [`talos.auth.token=hush-${mark}`, `net.ifnames=${mark}`] },
        env: { TS_AUTH: `hush-${mark}`, NO_PROXY: `10.0.0.${mark}` },
        pods: [{ spec: { containers: [{ env: [{ name: "PIN", value: `hush-${mark}` }] }] } }],
        kubelet: { extraConfig: { rules: `first\nhush-${mark}\n` } },
      },
      cluster: {
        extraManifestHeaders: { Authorization: `Bearer hush-${mark}` },
        extraManifests: [`https://files.example/a.yaml?sig=hush-${mark}`],
        apiServer: { extraArgs: { "client-tokens": [`hush-${mark}`] } },
      },
    },
    {
      kind: "ExtensionServiceConfig",
      name: "tailscale",
      environment: [`TS_AUTHKEY=tskey-hush-${mark}`, `TS_ROUTES=hush-${mark}`],
    },
    { kind: "SideroLinkConfig", apiUrl: `grpc://omni.example:8090/?jointoken=hush-${mark}` },
  ];
  const text = configDifferences(services("1"), services("2")).join("\n");
  expect(text).toContain("ExtensionServiceConfig/tailscale.environment.0: (secret, changed)");
  expect(text).toContain("cluster.extraManifestHeaders.Authorization: (secret, changed)");
  expect(text).toContain("machine.install.extraKernelArgs.1: net.ifnames=1 -> net.ifnames=2");
  expect(text).toContain("machine.env.NO_PROXY: 10.0.0.1 -> 10.0.0.2");
  expect(text).toContain(
    "SideroLinkConfig.apiUrl: grpc://omni.example:8090/?… -> grpc://omni.example:8090/?…",
  );
  expect(text).not.toContain("hush");
});
