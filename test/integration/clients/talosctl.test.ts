// talosctl, built from its own sources, agrees with us: it takes every configuration we render, makes the same ones from
// the same secrets, and reads and writes the same bundles.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { parseConfig } from "../../../packages/talos/src/config/config-text.ts";
import { StandInClusters } from "../../../packages/talos/src/testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../../../packages/talos/src/testing/stand-in/talos-stand-in.ts";
import { skipping } from "../../support/foreign-clients.ts";
import { BUILD_MS, goPrograms, lacksGo } from "../../support/go-clients.ts";
import { root } from "../../support/gpve.ts";

const given = process.env["GPVE_TALOSCTL"];
const lacking = given === undefined ? await lacksGo() : undefined;

/** What talosctl 1.13 knows. */
const versions = ["v1.11.6", "v1.12.11", "v1.13.9"];

const genConfig = ["gen", "config", "prod", "https://10.0.0.9:6443"];

describe.skipIf(skipping("talosctl", lacking))("talosctl", () => {
  let folder = "";
  let program = "";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-talosctl-"));
    program = given ?? (await goPrograms.talosctl());
  }, BUILD_MS);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const talosctl = (...args: readonly string[]) =>
    exec(program, args, { cwd: folder, env: { HOME: folder }, okCodes: [0, 1] });
  const gpvectl = (...args: readonly string[]) =>
    exec(process.execPath, [join(root, "packages/bin/src/main.js"), "ctl", "talos", ...args], {
      cwd: folder,
      env: { HOME: folder, PATH: process.env["PATH"] ?? "" },
    });
  const read = (...path: readonly string[]) => readFileSync(join(folder, ...path), "utf8");

  async function file(name: string, talos: string, more: string, addons = ""): Promise<void> {
    const base = [
      "init",
      name,
      "--yes",
      "--preset",
      "production",
      "--name",
      "prod",
      "--network",
      "10.0.0.0/24",
    ];
    await gpvectl(...base, "--nodes", "a,b,c", "--talos-version", talos);
    const text = read(name).replace("cni: { type: cilium }", `cni: { type: flannel }${addons}`);
    writeFileSync(join(folder, name), `${text}\n${more}`);
  }

  test.each(versions)("takes every file rendered for %s", async (version) => {
    const name = `take-${version}.yaml`;
    await file(name, version, `talos: { diskEncryption: static, kubespan: true }\ntags: [k8s]\n`);
    const out = `take-${version}`;
    await gpvectl("render", "-f", name, "--out", out);
    const nodes = readdirSync(join(folder, out, "nodes"));
    expect(nodes).toHaveLength(6);
    for (const each of ["controlplane.yaml", "worker.yaml", ...nodes.map((node) => `nodes/${node}`)]) {
      const { stderr, stdout } = await talosctl("validate", "--mode", "cloud", "--config", join(out, each));
      expect(`${stdout}${stderr}`, each).toContain("is valid for cloud mode");
    }
    const broken = read(out, "nodes", nodes[0] ?? "").replace("type: controlplane", "type: nothing");
    writeFileSync(join(folder, "broken.yaml"), broken);
    expect((await talosctl("validate", "--mode", "cloud", "--config", "broken.yaml")).code).toBe(1);
  });

  test.each(versions)("makes the same configurations for %s from the same secrets", async (version) => {
    const name = `same-${version}.yaml`;
    const contract = version.replace(/\.\d+$/, "");
    // What cloud controllers need is a patch to talosctl.
    await file(name, version, "", "\n  ccm: { proxmox: { enabled: false }, talos: { enabled: false } }");
    const bundle = `bundle-${version}.yaml`;
    await talosctl("gen", "secrets", "--talos-version", contract, "-o", bundle);
    await gpvectl("secrets", "import", bundle, "-f", name);
    const out = `same-${version}`;
    await gpvectl("render", "-f", name, "--out", out);
    const output = async (key: string) => (await gpvectl("output", "-f", name, "--raw", key)).stdout;
    const same = `--with-secrets ${bundle} --talos-version ${contract} --additional-sans 10.0.0.9`;
    const image = ["--install-image", await output("installer_image"), "--install-disk", ""];
    const kubernetes = ["--kubernetes-version", await output("kubernetes_version")];
    const plain = ["--with-docs=false", "--with-examples=false", "-o", `gen-${version}`];
    await talosctl(...genConfig, ...same.split(" "), ...kubernetes, ...image, ...plain);
    for (const role of ["controlplane.yaml", "worker.yaml"]) {
      expect(parseConfig(read(out, role), "ours")).toEqual(
        parseConfig(read(`gen-${version}`, role), "theirs"),
      );
    }
  });

  test("reads our secrets and our talosconfig", async () => {
    await file("own.yaml", "v1.13.9", "");
    await gpvectl("secrets", "export", "own-secrets.yaml", "-f", "own.yaml");
    const made = await talosctl(...genConfig, "--with-secrets", "own-secrets.yaml", "-o", "own");
    expect(made.code).toBe(0);
    await gpvectl("render", "-f", "own.yaml", "--out", "own-rendered");
    const info = await talosctl("--talosconfig", "own-rendered/talosconfig", "config", "info");
    expect(info.stdout).toMatch(/Endpoints: +10\.0\.0\.10, 10\.0\.0\.11, 10\.0\.0\.12\nRoles: +os:admin/);
  });

  test("takes our stand-in for a machine, from its first configuration to its reset", async () => {
    await file("story.yaml", "v1.13.9", "");
    await gpvectl("render", "-f", "story.yaml", "--out", "story");
    const clusters = new StandInClusters();
    const uuid = "338085e1-f323-51fe-9a79-ffcfffe38931";
    const node = await TalosStandIn.start({ uuid, version: "v1.13.0", clusters });
    const known = ["--talosconfig", "story/talosconfig", "-e", node.address, "-n", "127.0.0.1"];
    try {
      const insecure = ["--insecure", "-n", node.address];
      expect((await talosctl("version", ...insecure)).stdout).toMatch(/Server:[^]*Tag: +v1\.13\.0/);
      const applied = await talosctl("apply-config", ...insecure, "-f", "story/controlplane.yaml");
      expect(applied).toMatchObject({ code: 0 });
      await node.settled();
      // A control plane is still booting until its etcd runs.
      expect(node.machine.stage).toBe("booting");

      expect((await talosctl("version", ...known)).stdout).toMatch(/NODE: +\S+\n\s+Tag: +v1\.13\.0/);
      // Without the cluster's certificate there is no way in any more.
      expect((await talosctl("version", ...insecure)).stderr).toContain("Unavailable");
      expect(await talosctl("bootstrap", ...known)).toMatchObject({ code: 0 });
      expect(node.machine.stage).toBe("running");
      const again = await talosctl("bootstrap", ...known);
      expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("AlreadyExists") });
      const members = await talosctl("etcd", "members", ...known);
      expect(members.stdout).toMatch(new RegExp(` ${node.machine.hostname} +https://`));
      expect(await talosctl("kubeconfig", "story/kube", "--merge=false", ...known)).toMatchObject({
        code: 0,
        stderr: "",
      });
      expect(read("story", "kube")).toContain("kind: Config");
      expect(await talosctl("reset", "--graceful", "--reboot", "--wait=false", ...known)).toMatchObject({
        code: 0,
      });
      await node.settled();
      expect(node.machine.stage).toBe("maintenance");
    } finally {
      await node.stop();
    }
  });
});
