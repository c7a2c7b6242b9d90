// The client of Kubernetes' API, on the fake one and over real TLS.
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createKubernetesAccess } from "../access/kubeconfig.ts";
import { FakeKubernetes } from "../testing/fake-kubernetes.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { drainNode } from "./drain-node.ts";
import type { Kubernetes, KubernetesRequest } from "./kubernetes.ts";
import { objectPath } from "./object-path.ts";
import { openKubernetes } from "./open-kubernetes.ts";
import { RestKubernetes } from "./rest-kubernetes.ts";

let fake: FakeKubernetes;
let kubernetes: Kubernetes;
let kubelets = ["a", "b"].map((hostname) => ({ hostname, isOn: true, version: "1.36.3" }));

beforeEach(() => {
  kubelets = ["a", "b"].map((hostname) => ({ hostname, isOn: true, version: "1.36.3" }));
  fake = new FakeKubernetes({ kubelets: () => kubelets, isUp: () => true });
  kubernetes = new RestKubernetes(fake.send);
});

const config = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "x", namespace: "kube-system" },
} as const;

test("nodes are seen, cordoned by us or by others, and deleted", async () => {
  expect(await kubernetes.version()).toBe("1.36.3");
  const marks = { labels: {}, taints: [], own: { labels: {}, taints: [] } };
  const known = { isReady: true, isCordoned: false, isOurCordon: false, kubelet: "1.36.3", marks };
  expect(await kubernetes.nodes()).toEqual([
    { name: "a", ...known },
    { name: "b", ...known },
  ]);
  await kubernetes.setCordon("a", true);
  const other = fake.nodes.get("b");
  if (other !== undefined) other.isCordoned = true;
  kubelets = kubelets.map((kubelet) => ({ ...kubelet, isOn: kubelet.hostname === "b" }));
  expect(await kubernetes.nodes()).toMatchObject([
    { isReady: false, isCordoned: true, isOurCordon: true },
    { isReady: true, isCordoned: true, isOurCordon: false },
  ]);
  await kubernetes.setCordon("a", false);
  expect((await kubernetes.nodes())[0]).toMatchObject({ isCordoned: false, isOurCordon: false });
  await kubernetes.deleteNode("a");
  await kubernetes.deleteNode("a");
  expect((await kubernetes.nodes()).map(({ name }) => name)).toEqual(["b"]);
  await expect(kubernetes.setCordon("a", true)).rejects.toMatchObject({
    code: "object.not_found",
    message: 'Kubernetes: cordon a: nodes "a" not found',
  });
});

test("objects are applied, read and deleted where the API has them", async () => {
  expect(await kubernetes.read(config)).toBeUndefined();
  await kubernetes.apply({ ...config, data: { a: "1" } });
  expect(await kubernetes.read(config)).toMatchObject({ data: { a: "1" } });
  await kubernetes.delete(config);
  expect(await kubernetes.read(config)).toBeUndefined();
  kubernetes.close();
});

test.each([
  ["v1", "ConfigMap", "/api/v1/namespaces/kube-system/configmaps/x"],
  ["apps/v1", "DaemonSet", "/apis/apps/v1/namespaces/kube-system/daemonsets/x"],
  [
    "networking.k8s.io/v1",
    "NetworkPolicy",
    "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies/x",
  ],
  ["networking.k8s.io/v1", "IngressClass", "/apis/networking.k8s.io/v1/ingressclasses/x"],
  ["rbac.authorization.k8s.io/v1", "ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x"],
  [
    "gateway.networking.k8s.io/v1",
    "Gateway",
    "/apis/gateway.networking.k8s.io/v1/namespaces/kube-system/gateways/x",
  ],
  ["v1", "Endpoints", "/api/v1/namespaces/kube-system/endpoints/x"],
])("%s %s is at %s", (apiVersion, kind, path) => {
  expect(objectPath({ ...config, apiVersion, kind })).toBe(path);
});

describe("a drain", () => {
  const drain = (policy: "strict" | "evict-then-delete" | "skip") =>
    drainNode(kubernetes, instantClock(), { node: "a", policy, timeoutMs: 60_000 });

  test("moves what can be moved, and leaves daemons and static pods", async () => {
    await kubernetes.nodes();
    fake.addPod("a", "web");
    fake.addPod("a", "daemon", { owner: "DaemonSet" });
    await drain("strict");
    expect(fake.pods.get("web")?.node).toBe("b");
    expect(fake.pods.get("daemon")?.node).toBe("a");
    expect(fake.nodes.get("a")?.isCordoned).toBe(true);
  });

  test("waits for a budget, then fails or deletes, as told", async () => {
    await kubernetes.nodes();
    fake.addPod("a", "kept", { isKept: true });
    await expect(drain("strict")).rejects.toMatchObject({
      message: "a is not empty after 60 s: default/kept did not go",
      data: { finding: "drain-timeout" },
    });
    await drain("skip");
    expect(fake.pods.get("kept")?.node).toBe("a");
    await drain("evict-then-delete");
    expect(fake.pods.get("kept")?.node).toBe("b");
  });
});

describe("over TLS", () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close().closeAllConnections();
  });

  test("an administrator's certificate is shown, and strangers are refused", async () => {
    const secrets = await testBundle(Date.now());
    const { serverCertificate } = await import("../testing/kubernetes-certificate.ts");
    const pair = await serverCertificate(secrets.certs.k8s, ["127.0.0.1"]);
    const seen: KubernetesRequest[] = [];
    const options = { ...pair, ca: secrets.certs.k8s.crt, requestCert: true, rejectUnauthorized: true };
    const server = createServer(options, (request, response) => {
      request.resume();
      request.on("end", () => {
        seen.push({ method: request.method as "GET", path: request.url ?? "" });
        const isText = request.url === "/api/v1/nodes";
        response.writeHead(isText ? 503 : 200);
        response.end(isText ? "not now" : JSON.stringify({ gitVersion: "v1.36.3" }));
      });
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const request = { clusterName: "c", endpoint: `https://127.0.0.1:${port}`, now: Date.now() };
    const access = await createKubernetesAccess(secrets, request);
    const client = openKubernetes(access);
    expect(await client.version()).toBe("1.36.3");
    await expect(client.nodes()).rejects.toMatchObject({
      code: "node.unavailable",
      message: "Kubernetes: list nodes: not now",
    });
    await client.apply(config);
    expect(seen.at(-1)).toMatchObject({
      method: "PATCH",
      path: "/api/v1/namespaces/kube-system/configmaps/x?fieldManager=gpve-talos&force=true",
    });
    client.close();
    const other = await createKubernetesAccess(await testBundle(Date.now()), request);
    const stranger = openKubernetes(other);
    await expect(stranger.version()).rejects.toMatchObject({ code: "node.unavailable" });
    stranger.close();
  });
});
