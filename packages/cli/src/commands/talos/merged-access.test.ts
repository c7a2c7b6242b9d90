import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createKubernetesAccess, writeKubeconfig } from "@gpve/talos/access/kubeconfig.ts";
import { createTalosContext, writeTalosconfig } from "@gpve/talos/access/talosconfig.ts";
import { testBundle } from "@gpve/talos/testing/test-bundle.ts";
import type { Cli } from "../../command.ts";
import { ownCertificates, usualPlaces } from "./merged-access.ts";

test("certificates are looked for where talosctl and kubectl look", async () => {
  const homeDir = mkdtempSync(join(tmpdir(), "gpve-merged-"));
  const io = (env: Readonly<Record<string, string>>) => ({ io: { env, homeDir } }) as unknown as Cli;
  try {
    expect(usualPlaces(io({}), "talosconfig")).toEqual([join(homeDir, ".talos", "config")]);
    expect(usualPlaces(io({ TALOSCONFIG: "/t" }), "talosconfig")).toEqual(["/t"]);
    expect(usualPlaces(io({ KUBECONFIG: "/a::/b" }), "kubeconfig")).toEqual(["/a", "/b"]);
    expect(usualPlaces(io({ KUBECONFIG: "" }), "kubeconfig")).toEqual([join(homeDir, ".kube", "config")]);
    const secrets = await testBundle();
    const now = Date.now();
    expect(await ownCertificates(io({}), secrets)).toEqual([]);
    const [talos, kube] = [join(homeDir, ".talos", "config"), join(homeDir, "kube")];
    mkdirSync(join(homeDir, ".talos"));
    writeFileSync(talos, writeTalosconfig("prod", await createTalosContext(secrets, { endpoints: [], now })));
    const asked = { clusterName: "prod", endpoint: "https://10.0.0.9:6443", now };
    writeFileSync(kube, writeKubeconfig(await createKubernetesAccess(secrets, asked)));
    const found = await ownCertificates(io({ KUBECONFIG: `${homeDir}:${kube}` }), secrets);
    expect(found.map(({ name }) => name)).toEqual([`prod in ${talos}`, `admin@prod in ${kube}`]);
    expect(found.every(({ crt }) => crt.startsWith("-----BEGIN CERTIFICATE-----"))).toBe(true);
    expect(await ownCertificates(io({ KUBECONFIG: kube }), undefined)).toEqual([]);
  } finally {
    rmSync(homeDir, { recursive: true });
  }
});
