// Clients of Kubernetes that nobody here wrote, against a virtual cluster: those of PyPI and npm, and helm with a chart.
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import {
  clientsFolder,
  lacksPython,
  npmClients,
  pypiPython,
  skipping,
} from "../../support/foreign-clients.ts";
import { BUILD_MS, goPrograms, lacksGo } from "../../support/go-clients.ts";
import { nodeBinary, type Gpve } from "../../support/gpve.ts";
import { endClustersOf } from "../../support/left-clusters.ts";
import { canRunClusters, ctl, startWithComponents } from "../../support/vclusters.ts";

const lacking = canRunClusters
  ? ((await lacksGo()) ?? (await lacksPython("venv, ensurepip", "python3-venv")))
  : "needs root, and what test/integration/vcluster.test.ts builds";

describe.skipIf(skipping("clients of Kubernetes", lacking))("a virtual cluster", () => {
  let gpve: Gpve;
  let folder: string;
  let kubeconfig: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-kube-clients-"));
    kubeconfig = join(folder, "kubeconfig");
    gpve = await startWithComponents();
    expect(await ctl(gpve, "vc", "create", "demo", "--workers", "1", "--wait")).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig, (await ctl(gpve, "vc", "kubeconfig", "demo")).out, { mode: 0o600 });
  });
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    for (const place of [gpve.data, folder]) rmSync(place, { recursive: true, force: true });
  });

  const env = (): Record<string, string> => ({ ...MINIMAL_ENV, HOME: folder, KUBECONFIG: kubeconfig });
  const round = {
    python: async () => {
      const python = await pypiPython("kubernetes/requirements.txt");
      return [python, join(clientsFolder, "kubernetes/round.py")] as const;
    },
    npm: async () => {
      symlinkSync(join(await npmClients("kubernetes"), "node_modules"), join(folder, "node_modules"));
      const script = join(folder, "round.mjs");
      copyFileSync(join(clientsFolder, "kubernetes/round.mjs"), script);
      return [nodeBinary, script] as const;
    },
  };

  test.each(["python", "npm"] as const)(
    "serves the client from %s",
    async (which) => {
      const [program, script] = await round[which]();
      const { stdout } = await exec(program, [script, kubeconfig], { env: env(), timeoutMs: 240_000 });
      expect(JSON.parse(stdout)).toEqual({
        version: expect.stringMatching(/^v1\.\d+\.\d+/),
        available: true,
        phase: "Running",
        log: "hello from a pod\n",
        exec: "told by exec\n",
        scale: 0,
        refused: [422, expect.stringContaining("hostPID")],
      });
    },
    600_000,
  );

  test(
    "takes a chart by helm through its life",
    async () => {
      const helm = await goPrograms.helm();
      const chart = join(clientsFolder, "helm/chart");
      const run = async (...argv: readonly string[]): Promise<string> =>
        (await exec(helm, argv, { env: env(), timeoutMs: 240_000 })).stdout;
      const wait = ["--wait", "--timeout", "3m"];
      const state = async (): Promise<object> => {
        const [release] = JSON.parse(await run("list", "-o", "json")) as Record<string, unknown>[];
        return { revision: release?.["revision"], status: release?.["status"], chart: release?.["chart"] };
      };
      await run("install", "web", chart, ...wait);
      expect(await state()).toEqual({ revision: "1", status: "deployed", chart: "web-0.1.0" });
      expect(await run("test", "web", "--timeout", "3m")).toMatch(/Phase:\s+Succeeded/);
      await run("upgrade", "web", chart, "--set", "page=second,replicas=2", ...wait);
      expect(await run("test", "web", "--timeout", "3m")).toMatch(/Phase:\s+Succeeded/);
      await run("rollback", "web", "1", ...wait);
      expect(await state()).toMatchObject({ revision: "3", status: "deployed" });
      expect(await run("get", "values", "web", "-a")).toContain("page: first");
      await run("uninstall", "web", ...wait);
      expect(JSON.parse(await run("list", "-a", "-o", "json"))).toEqual([]);
    },
    BUILD_MS + 600_000,
  );
});
