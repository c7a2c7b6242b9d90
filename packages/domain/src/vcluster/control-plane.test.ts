import { describe, expect, test } from "vitest";
import { auditPolicy } from "./audit-policy.ts";
import { controlPlaneCertificates, dnsServiceAddress, firstServiceAddress } from "./certificates.ts";
import { CONTROL_PLANE_PARTS } from "./cluster-part.ts";
import { controlPlaneCommand, type ControlPlanePlace } from "./control-plane.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import { authorizationConfig, DEAD_END, hasPlatformRights } from "./platform-rights.ts";
import { readVirtualClusterSpec } from "./vcluster-spec.ts";

const place: ControlPlanePlace = {
  address: "100.80.0.2",
  pki: (file) => `/vc/pki/${file}`,
  kubeconfig: (part) => `/vc/pki/${part}.kubeconfig`,
  store: { servers: ["unix:///store/etcd.sock"] },
};
const spec = readVirtualClusterSpec({ networking: { serviceCIDR: "10.97.0.0/16" } });

describe("command lines of a control plane", () => {
  test("name every file that they read, and read no other", () => {
    for (const part of CONTROL_PLANE_PARTS) {
      const { args, files } = controlPlaneCommand(part, spec, place);
      const named = args.flatMap((arg) => /=(\/vc\/\S+)$/.exec(arg)?.[1] ?? []);
      expect([part, [...new Set(named)].toSorted()]).toEqual([part, files.toSorted()]);
    }
  });

  test("give the keys of the authority to the controllers alone", () => {
    const holders = CONTROL_PLANE_PARTS.filter((part) =>
      controlPlaneCommand(part, spec, place).files.includes("/vc/pki/ca.key"),
    );
    expect(holders).toEqual(["kube-controller-manager"]);
  });

  test("the API server speaks to its store, verifies kubelets and encrypts secrets", () => {
    const { args } = controlPlaneCommand("kube-apiserver", spec, place);
    expect(args).toEqual(
      expect.arrayContaining([
        "--etcd-servers=unix:///store/etcd.sock",
        "--bind-address=100.80.0.2",
        "--service-cluster-ip-range=10.97.0.0/16",
        "--kubelet-certificate-authority=/vc/pki/ca.crt",
        "--encryption-provider-config=/vc/pki/encryption.json",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
      ]),
    );
  });

  test("the API server writes an audit log that has an end, by a policy that names no content", () => {
    const audit = { policy: "/vc/audit-policy.json", folder: "/vc/audit" };
    const { args, files, writable } = controlPlaneCommand("kube-apiserver", spec, { ...place, audit });
    expect(args).toEqual(
      expect.arrayContaining([
        "--audit-policy-file=/vc/audit-policy.json",
        "--audit-log-path=/vc/audit/audit.log",
        "--audit-log-maxsize=10",
        "--audit-log-maxbackup=3",
      ]),
    );
    expect([files.includes(audit.policy), writable]).toEqual([true, [audit.folder]]);
    expect(JSON.stringify(auditPolicy)).not.toMatch(/"level":"Request/);
  });
});

describe("what belongs to the platform", () => {
  const rights = { config: "/vc/guard/authorization.json", deadEnd: "/vc/guard/dead-end.json" };

  test("is denied before any role is asked, at a place where nobody answers", () => {
    const { args, files } = controlPlaneCommand("kube-apiserver", spec, { ...place, rights });
    expect(args).toContain("--authorization-config=/vc/guard/authorization.json");
    expect(args.join(" ")).not.toContain("--authorization-mode");
    expect(files).toEqual(expect.arrayContaining([rights.config, rights.deadEnd]));
    const { authorizers } = JSON.parse(authorizationConfig(rights.deadEnd, "objects")) as {
      authorizers: { type: string; webhook?: { failurePolicy: string } }[];
    };
    expect(authorizers.map(({ type }) => type)).toEqual(["Webhook", "Node", "RBAC"]);
    expect(authorizers[0]?.webhook?.failurePolicy).toBe("Deny");
    expect(authorizationConfig("", "objects")).toContain("validatingadmissionpolicybindings");
    expect(authorizationConfig("", "files")).not.toContain("validatingadmissionpolicybindings");
    expect(DEAD_END).toContain("https://127.0.0.1:1/");
    expect(["1.31.0", "1.35.6", "2.0.0"].map(hasPlatformRights)).toEqual([false, true, true]);
  });

  test("is also whom a kubeconfig named that was taken back, whatever he asks for", () => {
    const authorizers = (revoked: readonly string[]) =>
      (
        JSON.parse(authorizationConfig("/dead", "files", revoked)) as {
          authorizers: { type: string; name: string; webhook?: { matchConditions: unknown } }[];
        }
      ).authorizers;
    expect(authorizers([]).map(({ name }) => name)).toEqual(["gpve-platform", "node", "rbac"]);
    const [, denied, ...others] = authorizers(["0123456789abcdef", "1123456789abcdef"]);
    expect(denied).toMatchObject({
      type: "Webhook",
      name: "gpve-revoked",
      webhook: { failurePolicy: "Deny", connectionInfo: { kubeConfigFile: "/dead" } },
    });
    expect(denied?.webhook?.matchConditions).toEqual([
      {
        expression:
          "request.groups.exists(each, each in ['gpve:kubeconfig:0123456789abcdef', 'gpve:kubeconfig:1123456789abcdef'])",
      },
    ]);
    // Before whatever could allow it.
    expect(others.map(({ type }) => type)).toEqual(["Node", "RBAC"]);
  });

  test("is the API server's own entries among all APIs, and no other", () => {
    const pattern =
      /\.matches\(r'([^']+)'\)/.exec(authorizationConfig("", "files").replaceAll("\\\\", "\\"))?.[1] ?? "";
    const own = new RegExp(pattern);
    for (const name of [
      "v1.",
      "v1.apps",
      "v2.autoscaling",
      "v1.admissionregistration.k8s.io",
      "v1.node.k8s.io",
    ])
      expect([name, own.test(name)]).toEqual([name, true]);
    for (const name of ["v1beta1.metrics.k8s.io", "v1.gateway.networking.k8s.io", "v1.shop.example"])
      expect([name, own.test(name)]).toEqual([name, false]);
  });
});

describe("certificates of a control plane", () => {
  const certificates = controlPlaneCertificates({
    serviceCidr: "10.97.0.0/16",
    dnsDomain: "cluster.local",
    address: "100.80.0.2",
    alsoKnownAs: ["n1", "192.0.2.1"],
  });

  test("the server's names every way in", () => {
    expect(certificates.find(({ name }) => name === "apiserver")?.names).toEqual(
      expect.arrayContaining([
        "kubernetes.default.svc",
        "127.0.0.1",
        "10.97.0.1",
        "100.80.0.2",
        "n1",
        "192.0.2.1",
      ]),
    );
    expect([firstServiceAddress("10.97.0.0/16"), dnsServiceAddress("10.97.0.0/16")]).toEqual([
      "10.97.0.1",
      "10.97.0.10",
    ]);
  });

  test("nobody on disk is of system:masters", () => {
    expect(certificates.map(({ organisation }) => organisation)).not.toContain("system:masters");
  });
});

test("a kubeconfig has one cluster, one user and one context", () => {
  const text = kubeconfigText(
    { name: "demo", user: "joe@demo", server: "https://x", caPem: "CA", certPem: "C", keyPem: "K" },
    (plain) => `<${plain}>`,
  );
  expect(JSON.parse(text)).toMatchObject({
    "current-context": "demo",
    clusters: [{ name: "demo", cluster: { server: "https://x", "certificate-authority-data": "<CA>" } }],
    users: [{ name: "joe@demo", user: { "client-key-data": "<K>" } }],
  });
});
