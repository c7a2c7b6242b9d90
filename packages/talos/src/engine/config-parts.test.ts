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
