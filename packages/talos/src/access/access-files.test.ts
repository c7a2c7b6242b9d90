import "reflect-metadata";
import { X509Certificate as NodeCertificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { parse } from "yaml";
import { beforeAll, describe, expect, test } from "vitest";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { readKeyPem } from "../secrets/key-pem.ts";
import { beginRotation, formerPrints, nextPhase, withoutOld } from "../secrets/rotation.ts";
import { testBundle } from "../testing/test-bundle.ts";
import {
  createKubernetesAccess,
  type KubernetesAccess,
  mergeKubeconfig,
  writeKubeconfig,
} from "./kubeconfig.ts";
import { createTalosContext, mergeTalosconfig, type TalosContext, writeTalosconfig } from "./talosconfig.ts";

const now = Date.UTC(2026, 0, 2);
const decode = (text: string): string => Buffer.from(text, "base64").toString("utf8");
let secrets: SecretsBundle;
let context: TalosContext;
let access: KubernetesAccess;

beforeAll(async () => {
  secrets = await testBundle();
  context = await createTalosContext(secrets, { endpoints: ["10.0.0.10", "10.0.0.11"], now });
  access = await createKubernetesAccess(secrets, {
    clusterName: "prod",
    endpoint: "https://10.0.0.9:6443",
    now,
  });
});

describe("client certificates", () => {
  test("Talos' names a role, is good for dialling only and for a year", () => {
    const certificate = new x509.X509Certificate(decode(context.crt));
    expect(certificate.subject).toBe("O=os:admin");
    expect(certificate.notAfter.getTime()).toBe(now + 8760 * 3_600_000);
    expect(certificate.getExtension(x509.KeyUsagesExtension)?.usages).toBe(
      x509.KeyUsageFlags.digitalSignature,
    );
    expect(certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages).toEqual([
      x509.ExtendedKeyUsage.clientAuth,
    ]);
    const node = new NodeCertificate(decode(context.crt));
    const ca = new NodeCertificate(secrets.certs.os.crt);
    expect(node.checkIssued(ca) && node.verify(ca.publicKey)).toBe(true);
    expect(node.ca).toBe(false);
    expect(node.checkPrivateKey(readKeyPem(decode(context.key), "key"))).toBe(true);
    expect(decode(context.key)).toContain("BEGIN ED25519 PRIVATE KEY");
  });

  test("other roles and shorter lives can be asked for", async () => {
    const reader = await createTalosContext(secrets, {
      endpoints: [],
      nodes: ["10.0.0.20"],
      roles: ["os:reader", "os:etcd:backup"],
      lifetimeHours: 1,
      now,
    });
    const certificate = new x509.X509Certificate(decode(reader.crt));
    expect(certificate.subject).toBe("O=os:reader, O=os:etcd:backup");
    expect(certificate.notAfter.getTime()).toBe(now + 3_600_000);
    expect(reader.nodes).toEqual(["10.0.0.20"]);
  });

  test("Kubernetes' is an administrator of the group of masters", () => {
    const node = new NodeCertificate(decode(access.crt));
    const ca = new NodeCertificate(secrets.certs.k8s.crt);
    expect(node.subject).toBe("O=system:masters\nCN=admin");
    expect(node.checkIssued(ca) && node.verify(ca.publicKey)).toBe(true);
    expect(node.checkPrivateKey(readKeyPem(decode(access.key), "key"))).toBe(true);
  });

  test("an authority whose key is not its own signs nothing", async () => {
    const broken = {
      ...secrets,
      certs: { ...secrets.certs, os: { ...secrets.certs.os, key: secrets.certs.k8s.key } },
    };
    await expect(createTalosContext(broken, { endpoints: [], now })).rejects.toThrow(
      "certificate and key of Talos' authority do not belong together",
    );
  });
});

describe("talosconfig", () => {
  test("is what talosctl reads", () => {
    expect(parse(writeTalosconfig("prod", context))).toEqual({
      context: "prod",
      contexts: { prod: context },
    });
  });

  test("keeps other contexts and comments, and selects ours", () => {
    const existing =
      "# mine\ncontext: lab\ncontexts:\n    lab: # the lab\n        endpoints: [10.9.0.1]\n        ca: abc\n";
    const { text, contextName } = mergeTalosconfig(existing, "prod", context);
    expect(contextName).toBe("prod");
    expect(text).toContain("# mine");
    expect(text).toContain("# the lab");
    expect(parse(text)).toEqual({
      context: "prod",
      contexts: { lab: { endpoints: ["10.9.0.1"], ca: "abc" }, prod: context },
    });
  });

  test("replaces the context of the same cluster and renames beside another's", () => {
    const before = { ...context, nodes: ["10.0.0.1"], crt: "old" };
    const again = mergeTalosconfig(writeTalosconfig("prod", before), "prod", context);
    expect(parse(again.text)).toEqual({ context: "prod", contexts: { prod: context } });
    expect(mergeTalosconfig(again.text, "prod", context).text).toBe(again.text);
    const other = writeTalosconfig("prod", { ...context, ca: "other" });
    const renamed = mergeTalosconfig(other, "prod", context);
    expect(renamed.contextName).toBe("prod-1");
    expect(parse(renamed.text)).toMatchObject({
      context: "prod-1",
      contexts: { prod: { ca: "other" }, "prod-1": context },
    });
    expect(mergeTalosconfig(renamed.text, "prod", context).contextName).toBe("prod-1");
  });

  test("knows its cluster again while its authority is replaced and after", async () => {
    const begun = await beginRotation(secrets, { talos: true, kubernetes: true }, now);
    const issuing = nextPhase(begun);
    const old = writeTalosconfig("prod", context);
    const during = await createTalosContext(issuing, { endpoints: [], now });
    expect(decode(during.ca)).toContain(secrets.certs.os.crt);
    expect(mergeTalosconfig(old, "prod", during).contextName).toBe("prod");
    const after = await createTalosContext(withoutOld(issuing), { endpoints: [], now });
    expect(mergeTalosconfig(old, "prod", after).contextName).toBe("prod-1");
    const former = formerPrints(issuing);
    expect(mergeTalosconfig(old, "prod", after, former).contextName).toBe("prod");
    const request = { clusterName: "prod", endpoint: "https://10.0.0.9:6443", now };
    const kube = await createKubernetesAccess(withoutOld(issuing), request);
    expect(mergeKubeconfig(writeKubeconfig(access), kube).contextName).toBe("admin@prod-1");
    expect(mergeKubeconfig(writeKubeconfig(access), kube, former).contextName).toBe("admin@prod");
    const damaged =
      "contexts: { prod: { ca: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQ== } }";
    expect(mergeTalosconfig(damaged, "prod", after, former).contextName).toBe("prod-1");
  });

  test("starts from nothing, and refuses what it cannot read without quoting it", () => {
    for (const empty of ["", "# nothing\n", "context: ''\ncontexts: {}\n", "contexts:\n"]) {
      expect(parse(mergeTalosconfig(empty, "prod", context).text)).toEqual({
        context: "prod",
        contexts: { prod: context },
      });
    }
    expect(() => mergeTalosconfig("contexts: [secret", "prod", context)).toThrow(
      /no YAML: [A-Z_]+ at character \d+; it was left as it is$/,
    );
    expect(() => mergeTalosconfig("- a", "prod", context)).toThrow("is no map");
    expect(() => mergeTalosconfig("contexts: [a]", "prod", context)).toThrow(
      "contexts of the talosconfig is no map",
    );
  });
});

describe("kubeconfig", () => {
  const names = (text: string): unknown => {
    const { clusters, users, contexts, ...rest } = parse(text) as Record<string, { name: string }[]>;
    const named = (list: { name: string }[] = []) => list.map(({ name }) => name);
    return [named(clusters), named(users), named(contexts), rest["current-context"]];
  };

  test("is what kubectl reads", () => {
    const text = writeKubeconfig(access);
    expect(parse(text)).toMatchObject({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        {
          name: "prod",
          cluster: { server: "https://10.0.0.9:6443", "certificate-authority-data": access.ca },
        },
      ],
      contexts: [{ context: { cluster: "prod", user: "admin@prod", namespace: "default" } }],
    });
    expect(names(text)).toEqual([["prod"], ["admin@prod"], ["admin@prod"], "admin@prod"]);
  });

  test("keeps the other clusters and comments", () => {
    const existing = `# mine
apiVersion: v1
kind: Config
current-context: lab
clusters:
    # the lab
    - name: lab
      cluster: {server: https://lab}
users: []
contexts: null
`;
    const { text } = mergeKubeconfig(existing, access);
    expect(text).toContain("# mine");
    expect(text).toContain("# the lab");
    expect(names(text)).toEqual([["lab", "prod"], ["admin@prod"], ["admin@prod"], "admin@prod"]);
  });

  test("replaces entries of the same cluster and renames beside another's", () => {
    const first = writeKubeconfig({ ...access, crt: "old" });
    const again = mergeKubeconfig(first, access);
    expect(parse(again.text)).toEqual(parse(writeKubeconfig(access)));
    expect(mergeKubeconfig(again.text, access).text).toBe(again.text);
    const renamed = mergeKubeconfig(writeKubeconfig({ ...access, ca: "other" }), access);
    expect(renamed.contextName).toBe("admin@prod-1");
    expect(names(renamed.text)).toEqual([
      ["prod", "prod-1"],
      ["admin@prod", "admin@prod-1"],
      ["admin@prod", "admin@prod-1"],
      "admin@prod-1",
    ]);
    // A user with our name and no cluster of it belongs to someone else.
    expect(mergeKubeconfig("users: [{name: admin@prod}]", access).contextName).toBe("admin@prod-1");
  });

  test("starts from nothing, and refuses lists that are none", () => {
    expect(parse(mergeKubeconfig("", access).text)).toEqual(parse(writeKubeconfig(access)));
    expect(() => mergeKubeconfig("clusters: {}", access)).toThrow("clusters of the kubeconfig is no list");
  });
});
