// Upstream's own tests of a cluster against a virtual one: those of the conformance suite that are about the API alone. The
// others want images of upstream's, or pods that level L1 refuses. `GPVE_VC_CONFORMANCE=1` runs it: about ten minutes, and
// the first time also the build of the tests.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Gpve } from "../support/gpve.ts";
import { endClustersOf } from "../support/left-clusters.ts";
import {
  cachedVersions,
  canRunClusters,
  components,
  ctl,
  startWithComponents,
} from "../support/vclusters.ts";

const isAsked = process.env["GPVE_VC_CONFORMANCE"] === "1";
if (isAsked && !canRunClusters)
  console.warn("SKIPPED: conformance of virtual clusters needs root and Kubernetes in this machine's cache");

/** What is about the API, by what the tests are called. */
const ABOUT = [
  "CustomResourceDefinition",
  "Watchers",
  "Discovery",
  "AggregatedDiscovery",
  "FieldValidation",
  "ResourceQuota",
  "Servers with support for API chunking",
  "Servers with support for Table transformation",
  "ValidatingAdmissionPolicy",
  "server version",
  "Certificates API",
  "SubjectReview",
  "ServiceAccounts should update a ServiceAccount",
  "kube-root-ca",
  "Ingress API",
  "IngressClass API",
  "EndpointSlice",
  "EndpointSliceMirroring",
  "Service endpoints latency should not exist",
  "should complete a service status lifecycle",
  "should delete a collection of services",
  "should find a service from listing all namespaces",
  "Lease",
  "RuntimeClass",
  "PodTemplates",
  "ConfigMap should run through a ConfigMap lifecycle",
  "Secrets should patch a secret",
];
/** What waits for images of upstream's, disturbs others, or is slow. */
const NOT = [
  "\\[Serial\\]",
  "\\[Slow\\]",
  "\\[Disruptive\\]",
  "EndpointSlice should (support a Service|create Endpoints|create and delete)",
  "RuntimeClass should (reject|schedule)",
  "CustomResourceConversionWebhook",
  "AdmissionWebhook",
  "proxy",
  "ServiceAccountIssuerDiscovery",
];

describe.skipIf(!isAsked || !canRunClusters)("a virtual cluster", () => {
  let gpve: Gpve;
  const [version = ""] = cachedVersions();

  beforeAll(async () => {
    gpve = await startWithComponents();
    if (!existsSync(join(components, "kubernetes-tests", version))) {
      const built = await ctl(gpve, "component", "install", "kubernetes-tests", version);
      expect(built).toMatchObject({ code: 0 });
    }
    expect(await ctl(gpve, "vc", "create", "conformant", "--workers", "1", "--wait")).toMatchObject({
      code: 0,
    });
  }, 5_400_000);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("passes upstream's conformance tests of the API", { timeout: 3_600_000 }, async () => {
    const kubeconfig = join(gpve.data, "conformant.kubeconfig");
    const { out } = await ctl(gpve, "vc", "kubeconfig", "conformant");
    writeFileSync(kubeconfig, out, { mode: 0o600 });
    const report = join(gpve.data, "report");
    const said = await exec(
      join(components, "kubernetes-tests", version, "e2e.test"),
      [
        "--provider=skeleton",
        `--kubeconfig=${kubeconfig}`,
        `--report-dir=${report}`,
        "--disable-log-dump",
        "--ginkgo.no-color",
        "--ginkgo.timeout=55m",
        `--ginkgo.focus=(${ABOUT.join("|")}).*\\[Conformance\\]`,
        ...NOT.map((pattern) => `--ginkgo.skip=${pattern}`),
      ],
      {
        env: { ...MINIMAL_ENV, HOME: gpve.data },
        cwd: gpve.data,
        okCodes: [0, 1, 197],
        timeoutMs: 3_500_000,
        maxOutputBytes: 256 * 1024 * 1024,
      },
    );
    const ran = /Ran (\d+) of \d+ Specs in ([\d.]+) seconds/.exec(said.stdout);
    const passed = /(\d+) Passed/.exec(said.stdout)?.[1];
    const failed = [...junit(report).matchAll(/<testcase name="([^"]+)"[^>]*status="failed"/g)];
    console.info(`${passed} of ${ran?.[1]} tests of upstream's passed in ${ran?.[2]} s`);
    expect(failed.map(([, name]) => name)).toEqual([]);
    expect([said.code, said.stdout.slice(-2_000)]).toEqual([0, expect.stringContaining("0 Failed")]);
    expect(Number(passed)).toBeGreaterThanOrEqual(50);
  });
});

function junit(folder: string): string {
  const file = join(folder, "junit_01.xml");
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}
